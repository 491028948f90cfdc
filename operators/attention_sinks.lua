--- Attention sinks (Xiao et al. 2023; gpt-oss): a learned score per head is added to the softmax's sum. Kernels rescale
--- their output; the backward pass sums the gradient of each head.
local shapes = require "ett.operator.shapes"

local op = { name = "attention_sinks", family = "elementwise", summary = "learned score of each head in the softmax" }

op.schema = { tokens = "count", heads = "count" }

function op.shape(c) return { tokens = shapes.tokens(c), heads = shapes.local_heads(c) } end
function op.flops(s, pass) return (pass == "backward" and 6.0 or 4.0) * s.tokens * s.heads end

--- Reads and writes one fp32 sum per row and head.
function op.bytes(s) return 8.0 * s.tokens * s.heads end
function op.parameters(s) return s.heads end
function op.kernel_shape(s) return { rows = s.tokens, cols = s.heads } end

return op

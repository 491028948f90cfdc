--- Attention sinks (Xiao et al. 2023; gpt-oss): a learned score of each head joins the softmax's sum. Kernels scale
--- their output once more; backward sums the gradient of each head.
local shapes = require "ett.operator.shapes"

local op = { name = "attention_sinks", family = "elementwise", summary = "learned score of each head in the softmax" }

op.schema = { tokens = "count", heads = "count" }

function op.shape(c) return { tokens = shapes.tokens(c), heads = shapes.local_heads(c) } end
function op.flops(s, pass) return (pass == "backward" and 6.0 or 4.0) * s.tokens * s.heads end

--- The fp32 sum of each row and head is read and written.
function op.bytes(s) return 8.0 * s.tokens * s.heads end
function op.parameters(s) return s.heads end
function op.kernel_shape(s) return { rows = s.tokens, cols = s.heads } end

return op

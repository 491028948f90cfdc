--- One elementwise kernel of the entry's sizes, for work that no other operator names: a token shift, a product of two
--- streams, a copy of windows. A tensor has element_width values for each token (default hidden). The kernel reads
--- element_reads tensors (default 1) and writes element_writes (default 1). It stores element_saved of the read tensors
--- for the backward pass (default 0: a sum or a copy). Every tensor rank computes all values.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "elementwise", family = "elementwise", summary = "elementwise kernel of the entry's sizes" }

op.schema = { tokens = "count", values = "count", reads = "natural", writes = "count", saved = "natural" }

op.constraints = { { "saved must be at most reads", function(s) return s.saved <= s.reads end } }

function op.shape(c)
  return { tokens = shapes.norm_tokens(c), values = c.element_width or c.hidden, reads = c.element_reads or 1,
    writes = c.element_writes or 1, saved = c.element_saved or 0 }
end

local function size(s) return (s.tokens + 0.0) * s.values end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.values, tensors = s.reads + s.writes } end

--- One operation for each tensor that a pass moves.
function op.flops(s, pass)
  return size(s) * (s.reads + s.writes + (pass == "backward" and s.saved or 0))
end

--- Backward reads the gradients of what was written and the saved tensors, and writes a gradient of each tensor read.
function op.bytes(s, dtype, pass) return memory.width(dtype) * op.flops(s, pass) end

function op.activation_bytes(s, dtype) return memory.width(dtype) * size(s) * s.saved end

function op.working_bytes(s, dtype) return memory.width(dtype) * size(s) * (s.reads + s.writes) end

return op

--- Gate on the attention output: sigmoid of a second projection of the residual stream (Qwen3-Next).
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "attention_gate", family = "elementwise", summary = "sigmoid gate of the attention's output" }

op.schema = { tokens = "count", width = "count" }

function op.shape(c)
  return { tokens = shapes.tokens(c), width = shapes.local_heads(c) * shapes.head_dim(c) }
end

-- Forward reads both operands; backward also reads the gradient, and writes two gradients.
memory.define(op, { columns = "width", forward = { reads = 2, writes = 1, flops = 5 },
  backward = { reads = 3, writes = 2, flops = 8 },
  saved = 2 })

return op

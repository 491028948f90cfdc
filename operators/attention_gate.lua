--- Gate on the attention output: sigmoid of a second projection of the residual stream (Qwen3-Next), of the output's
--- width or one value a head (Step-3.5).
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "attention_gate", family = "elementwise", summary = "sigmoid gate of the attention's output" }

-- gates: columns of the gate, if fewer than `width`.
op.schema = { tokens = "count", width = "count", gates = "count?" }

function op.shape(c)
  local heads = shapes.local_heads(c)
  return { tokens = shapes.tokens(c), width = heads * (c.v_head_dim or shapes.head_dim(c)),
    gates = c.head_gate and heads or nil }
end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.width, gates = s.gates or s.width } end

-- Forward reads both operands; backward also reads the gradient, and writes two gradients.
function op.bytes(s, dtype, pass)
  local gates, backward = s.gates or s.width, pass == "backward"
  return (s.tokens + 0.0) * memory.width(dtype)
    * (backward and 3 * s.width + 2 * gates or 2 * s.width + gates)
end

function op.activation_bytes(s, dtype)
  return (s.tokens + 0.0) * memory.width(dtype) * (s.width + (s.gates or s.width))
end

memory.define(op, { forward = { reads = 2, writes = 1, flops = 5 },
  backward = { reads = 3, writes = 2, flops = 8 },
  saved = 2 })

return op

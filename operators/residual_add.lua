--- Addition of a block's output to the residual stream.
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "residual_add", family = "elementwise", summary = "residual addition", compiled = "add",
  residual = true }

-- multiplied: 1 if one operand is first multiplied by a number.
op.schema = { tokens = "count", hidden = "count", multiplied = "natural?" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

-- Forward reads two operands and writes their sum; backward adds the two incoming gradients.
local cost = { reads = 2, writes = 1, flops = 1 }
memory.define(op, { forward = cost, backward = cost })

--- The residual: the operator before wrote the other operand only.
function op.earlier_bytes(s, dtype) return (s.tokens + 0.0) * s.hidden * memory.width(dtype) end

--- Software multiplies an adapter's output by alpha / rank in a kernel of its own, and its gradient, too (PEFT,
--- tuners/lora/layer.py; torchtune, modules/peft/lora.py; Megatron-Bridge, ParallelLinearAdapter.forward). The host's
--- time of this kernel is not counted. Compilers multiply inside the addition.
function op.beside_bytes(s, _, dtype, stack)
  if s.multiplied ~= 1 or stack.norm == "compiled" then return 0.0 end
  return 2 * op.earlier_bytes(s, dtype)
end

local sum = { takes = { "a", "b" }, gives = { "sum" }, code = "sum = a + b;",
  double = function(a, b) return a + b end }
launch.map(op, { forward = sum, backward = sum })

op.torch = [[
a, b = tensor(s.tokens, s.hidden), tensor(s.tokens, s.hidden)
return lambda: a + b
]]

return op

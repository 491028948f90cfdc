--- Gated activation silu(gate) * up (Shazeer 2020). `width` is the width of the output.
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local function doubles() return require "ett.operator.doubles" end -- for tests of kernels alone

local op = { name = "swiglu", aliases = { "silu_mul", "geglu" }, family = "elementwise", gated = true,
  summary = "gated activation silu(gate) * up", compiled = "swiglu" }

-- clamped: 1 if gate and up are clamped first (gpt-oss).
op.schema = { tokens = "count", width = "count", clamped = "natural?" }

function op.shape(c)
  return { tokens = shapes.tokens(c), width = shapes.local_ffn(c), clamped = c.clamped_mlp and 1 or nil }
end

-- Forward reads gate and up and writes y; backward reads gate, up and dy and writes both gradients.
memory.define(op, {
  columns = "width",
  forward = { reads = 2, writes = 1, flops = 6 },
  backward = { reads = 3, writes = 2, flops = 14 },
  saved = 2,
  -- Single PyTorch operators also store silu(gate), for the product's gradient.
  saved_extra = function(s, dtype, stack)
    return stack and (stack.gated_mlp or 1) > 1 and memory.width(dtype) * (s.tokens + 0.0) * s.width or 0.0
  end,
})

launch.map(op, {
  forward = { takes = { "gate", "up" }, gives = { "y" }, code = "y = gate / (1.0f + expf(-gate)) * up;",
    double = function(gate, up) return (doubles().swiglu(gate, up)) end },
  backward = { takes = { "gate", "up", "dy" }, gives = { "dgate", "dup" },
    code = [[float sigmoid = 1.0f / (1.0f + expf(-gate));
    dgate = dy * up * sigmoid * (1.0f + gate * (1.0f - sigmoid));
    dup = dy * gate * sigmoid;]],
    double = function(gate, up, dy)
      local _, by_gate, by_up = doubles().swiglu(gate, up)
      return dy * by_gate, dy * by_up
    end },
})

function op.recorded() return { what = "swiglu" } end

op.torch = [[
gate, up = tensor(s.tokens, s.width), tensor(s.tokens, s.width)
return lambda: F.silu(gate) * up
]]

return op

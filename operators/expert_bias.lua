--- Adds the experts' biases, weighted by the routing weights of the token copies, to the experts' outputs. Samplers run
--- a plain addition. MaxText gathers a row of each bias of an expert, also of the inner layers, for every copy of a
--- token (layers/moe.py, transform_bias).
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "expert_bias", experts = true, family = "elementwise",
  summary = "weighted biases of experts' outputs", compiled = "add" }

-- gathered: columns of all biases of an expert, if their rows are gathered
op.schema = { tokens = "count", hidden = "count", gathered = "count?" }

--- tokens: token copies on this rank, top_k per token.
function op.shape(c)
  local experts, tokens, ffn = shapes.experts(c)
  return { tokens = experts * tokens, hidden = c.hidden,
    gathered = c.gathers_biases and c.hidden + ffn * (c.gated_mlp and 2 or 1) or nil }
end

-- Bytes of the gathered rows.
local function gathered(s, dtype) return (s.tokens + 0.0) * (s.gathered or 0) * memory.width(dtype) end

--- Forward writes the gathered rows.
function op.gathered_bytes(s, dtype, pass) return pass == "forward" and gathered(s, dtype) or 0.0 end

--- Backward adds the gradients of the rows to those of the biases.
function op.scattered_bytes(s, dtype, pass) return pass == "backward" and gathered(s, dtype) or 0.0 end

--- The additions read the gathered rows.
function op.beside_bytes(s, pass) return pass == "forward" and gathered(s, "bf16") or 0.0 end

-- Fused: backward reads the output gradient once for the gradients of biases and weights, and passes it on unchanged.
memory.define(op, { forward = { reads = 1, writes = 1, flops = 2 }, backward = { reads = 1, writes = 0, flops = 4 } })

launch.map(op, {
  forward = { takes = { "a", "b" }, gives = { "y" }, code = "y = a + b;",
    double = function(a, b) return a + b end },
  backward = { takes = { "dy" }, gives = { "da" }, code = "da = dy;", double = function(dy) return dy end },
})

op.torch = [[
a, b = tensor(s.tokens, s.hidden), tensor(s.tokens, s.hidden)
return lambda: a + b
]]

return op

--- Adds the experts' biases, weighted by the routing weights of the token copies, to the experts' outputs. Samplers run
--- a plain addition.
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "expert_bias", experts = true, family = "elementwise",
  summary = "weighted biases of experts' outputs", compiled = "add" }

--- tokens: token copies on this rank, top_k per token.
function op.shape(c)
  local experts, tokens = shapes.experts(c)
  return { tokens = experts * tokens, hidden = c.hidden }
end

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

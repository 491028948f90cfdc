--- Adds the experts' biases, times the weights of the tokens' copies, to the experts' outputs. A sampler runs the
--- addition.
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "expert_bias", experts = true, family = "elementwise",
  summary = "weighted biases of experts' outputs", compiled = "add" }

--- tokens: copies of tokens on this rank, top_k of each.
function op.shape(c)
  local experts, tokens = shapes.experts(c)
  return { tokens = experts * tokens, hidden = c.hidden }
end

-- Fused: backward reads the gradient for those of biases and weights; that of the outputs passes through.
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

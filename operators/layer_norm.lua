--- Layer normalisation over the hidden dimension (Ba et al. 2016).
local norm = require "ett.operator.norm"
local shapes = require "ett.operator.shapes"

local op = { name = "layer_norm", summary = "layer normalisation", compiled = "layer_norm" }

op.schema = { tokens = "count", hidden = "count", bias = "natural?", gainless = "natural?" }

--- bias = 0: gain only (norm_bias = false). gainless = 1: neither gain nor bias.
function op.shape(c)
  return { tokens = shapes.norm_tokens(c), hidden = c.hidden, bias = c.norm_bias == false and 0 or nil,
    gainless = c.gainless and 1 or nil }
end

function op.parameters(s) return s.gainless and 0 or (s.bias == 0 and 1 or 2) * s.hidden end

norm.define(op, { centred = true, flops = { 8, 14 } })

op.torch = [[
x, gain, bias = tensor(s.tokens, s.hidden), tensor(s.hidden), tensor(s.hidden)
return lambda: F.layer_norm(x, (s.hidden,), gain, bias)
]]

return op

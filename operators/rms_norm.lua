--- Root-mean-square normalisation over the hidden dimension (Zhang & Sennrich 2019).
local norm = require "ett.operator.norm"
local shapes = require "ett.operator.shapes"

local op = { name = "rms_norm", aliases = { "rmsnorm" }, summary = "root-mean-square normalisation",
  compiled = "rms_norm" }

op.schema = { tokens = "count", hidden = "count", gainless = "natural?" }

function op.shape(c)
  return { tokens = shapes.norm_tokens(c), hidden = c.hidden, gainless = c.gainless and 1 or nil }
end

function op.parameters(s) return s.gainless and 0 or s.hidden end

norm.define(op, { flops = { 4, 8 } })

op.torch = [[
x, gain = tensor(s.tokens, s.hidden), tensor(s.hidden)
return lambda: gain * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)
]]

return op

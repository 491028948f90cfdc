--- Root-mean-square normalisation over the hidden dimension (Zhang & Sennrich 2019).
local norm = require "ett.operator.norm"

local op = { name = "rms_norm", aliases = { "rmsnorm" }, summary = "root-mean-square normalisation",
  compiled = "rms_norm" }

function op.parameters(s) return s.hidden end

norm.define(op, { flops = { 4, 8 } })

op.torch = [[
x, gain = tensor(s.tokens, s.hidden), tensor(s.hidden)
return lambda: gain * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)
]]

return op

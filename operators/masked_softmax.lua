--- Fused scale, upper-triangular mask and softmax (Megatron's kernel): masked keys are not read.
local scores = require "ett.operator.scores"

local op = { name = "masked_softmax", family = "softmax",
  summary = "fused scale, causal mask and softmax", selective = true, masked = true }

-- Half of the keys are masked: half of the scores are read, all are written.
scores.define(op, "masked_softmax", {
  forward = { reads = 0.5, writes = 1, flops = 3.5 },
  backward = { reads = 1, writes = 1, flops = 2.5 },
  saved = 1,
})
scores.softmax(op, true)

op.torch = scores.torch_masked .. [[
return lambda: F.softmax(x.masked_fill(mask, -10000.0), -1)
]]

return op

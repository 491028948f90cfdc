--- One of three kernels around a softmax in fp32: cast of the scores, scale, and cast of the probabilities
--- (Megatron-LM, megatron/core/fusions/fused_softmax.py, forward_torch_softmax).
local scores = require "ett.operator.scores"

local op = { name = "softmax_cast", family = "elementwise", selective = true,
  summary = "one of three kernels around a softmax in fp32: casts and scale of attention scores" }

-- A third of the bytes of the three kernels, and of those that mask and softmax move more in fp32 than in 16 bits.
-- Forward, per score: 6, 8 and 6 bytes, and 4 and 4 more; backward: 6, 8 and 6, and 4 and 6 more. The fp32
-- probabilities are stored beside those in 16 bits.
scores.define(op, nil, {
  forward = { reads = 7 / 3, writes = 7 / 3, flops = 1 / 3 },
  backward = { reads = 8 / 3, writes = 7 / 3, flops = 1 / 3 },
  saved = 2 / 3,
})
op.recorded = nil -- traces name its kernels as any cast or product

return op

--- Fused scale, upper-triangular mask and softmax (Megatron's kernel): masked keys are not read.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "masked_softmax", aliases = { "ScaledUpperTriangMaskedSoftmax" }, family = "softmax",
  summary = "fused scale, causal mask and softmax" }

op.schema = { batch = "count", heads = "count", seq_q = "count", seq_k = "count" }

function op.shape(c)
  return { batch = c.micro_batch, heads = shapes.local_heads(c),
    seq_q = shapes.divide("seq", c.seq, "cp", c.cp or 1), seq_k = c.seq }
end

function op.kernel_shape(s)
  return { rows = s.batch * s.heads * s.seq_q, cols = s.seq_k, seq_q = s.seq_q }
end

-- Half of the keys are masked: read half, write all.
memory.define(op, {
  forward = { reads = 0.5, writes = 1, flops = 3.5 },
  backward = { reads = 1, writes = 1, flops = 2.5 },
  saved = 1,
})
op.reference = shapes.reference(op, { "mp", "b", "h", "l" }, { "ScaledUpperTriangMaskedSoftmax" })

return op

--- Softmax over the keys.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "softmax", aliases = {}, family = "softmax", summary = "softmax over the keys" }

op.schema = { batch = "count", heads = "count", seq_q = "count", seq_k = "count" }

function op.shape(c)
  return { batch = c.micro_batch, heads = shapes.local_heads(c),
    seq_q = shapes.divide("seq", c.seq, "cp", c.cp or 1), seq_k = c.seq }
end

function op.kernel_shape(s)
  return { rows = s.batch * s.heads * s.seq_q, cols = s.seq_k, seq_q = s.seq_q }
end

-- Forward reads the scores and writes the probabilities; backward reads both and writes the scores' gradient.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 5 },
  backward = { reads = 2, writes = 1, flops = 4 },
  saved = 1,
})
op.reference = shapes.reference(op, { "mp", "b", "h", "l" }, { "softmax" })

return op

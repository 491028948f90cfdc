--- Fills masked scores with a large negative number, out of place.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "fill_mask", aliases = { "fillmask" }, family = "elementwise",
  summary = "fill of the masked attention scores" }

op.schema = { batch = "count", heads = "count", seq_q = "count", seq_k = "count" }

function op.shape(c)
  return { batch = c.micro_batch, heads = shapes.local_heads(c),
    seq_q = shapes.divide("seq", c.seq, "cp", c.cp or 1), seq_k = c.seq }
end

function op.kernel_shape(s)
  return { rows = s.batch * s.heads * s.seq_q, cols = s.seq_k, seq_q = s.seq_q }
end

-- Forward copies the scores under the mask; backward clears the masked gradients.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 1 },
  backward = { reads = 1, writes = 1, flops = 1 },
  saved = 0,
})
op.reference = shapes.reference(op, { "mp", "b", "h", "l", "dim" }, { "fillmask" })

return op

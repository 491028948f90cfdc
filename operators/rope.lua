--- Rotary position embedding of queries and keys (Su et al. 2021).
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "rope", aliases = { "RoPE", "rotary" }, family = "rope", summary = "rotary position embedding" }

op.schema = { batch = "count", seq = "count", heads = "count", kv_heads = "count", head_dim = "count",
  rotary_dim = "count" }

function op.shape(c)
  local head_dim = shapes.head_dim(c)
  return { batch = c.micro_batch, seq = shapes.divide("seq", c.seq, "cp", c.cp or 1),
    heads = shapes.local_heads(c), kv_heads = shapes.local_kv_heads(c), head_dim = head_dim,
    rotary_dim = math.max(1, math.floor(head_dim * (c.rotary_fraction or 1.0))) }
end

function op.kernel_shape(s)
  return { rows = s.batch * s.seq, cols = (s.heads + s.kv_heads) * s.rotary_dim,
    heads = s.heads + s.kv_heads, head_dim = s.head_dim }
end

-- Each element is read and written once in either pass: the backward is a rotation too.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 3 },
  backward = { reads = 1, writes = 1, flops = 3 },
})
op.reference = shapes.reference(op, { "mp", "b", "h", "l", "dim" }, { "RoPE" })

return op

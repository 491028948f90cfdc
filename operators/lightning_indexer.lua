--- Scores of the lightning indexer and the choice of the keys that attention sees (DeepSeek-V3.2-Exp, section 2.1):
--- the weighted sum over index heads of ReLU(q k), for each query and key before it. The tokens of a micro-batch are
--- split over tensor ranks.
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "lightning_indexer", family = "bmm", summary = "scores of the lightning indexer, choice of keys" }

op.note = "timed as products of its size; no measured kernel is behind it"

op.schema = { batch = "count", seq_q = "count", seq_k = "count", heads = "count", head_dim = "count", top_k = "count" }

--- A rank holds batch * seq_q queries; each sees on average half of the keys.
function op.shape(c)
  shapes.need(c, op.name, "index_heads", "index_head_dim", "index_top_k")
  return { batch = c.micro_batch, seq_q = math.max(1, shapes.divide("seq", c.seq, "cp", c.cp or 1) // c.tp),
    seq_k = c.seq, heads = c.index_heads, head_dim = c.index_head_dim, top_k = c.index_top_k }
end

local function pairs_of(s) return 0.5 * s.batch * s.seq_q * s.seq_k end

--- Products, ReLU, weight and sum of each pair and head.
function op.flops(s, pass)
  return (pass == "backward" and 2.0 or 1.0) * pairs_of(s) * s.heads * (2.0 * s.head_dim + 3)
end

--- Queries, keys and head weights; fp32 scores are written and read by the choice, which writes top_k indices.
function op.bytes(s, dtype)
  local rows = (s.batch + 0.0) * s.seq_q
  return width(dtype) * (rows * s.heads * (s.head_dim + 1) + (s.batch + 0.0) * s.seq_k * s.head_dim)
    + 8 * pairs_of(s) + 4 * rows * s.top_k
end

function op.activation_bytes(s, dtype)
  local rows = (s.batch + 0.0) * s.seq_q
  return width(dtype) * rows * s.heads * (s.head_dim + 1) + 4 * rows * s.top_k
end

--- One product with as many FLOPs as the products of all pairs.
function op.kernel_shape(s)
  return { m = s.seq_q, n = math.max(1, s.seq_k // 2), k = s.head_dim, batch = s.batch * s.heads }
end

return op

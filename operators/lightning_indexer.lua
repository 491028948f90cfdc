--- The lightning indexer scores keys and selects those that attention uses (DeepSeek-V3.2-Exp, section 2.1). A score is
--- the weighted sum of ReLU(q k) over index heads, for each query and each key before it. The tokens of a micro-batch
--- are split over tensor ranks.
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "lightning_indexer", family = "bmm", summary = "scores and key choice of the lightning indexer" }

op.note = "timed as products of its size; no kernel of it was measured"

op.schema = { batch = "count", seq_q = "count", seq_k = "count", heads = "count", head_dim = "count", top_k = "count" }

--- A rank holds batch * seq_q queries; each query scores half of the keys on average.
function op.shape(c)
  shapes.need(c, op.name, "index_heads", "index_head_dim", "index_top_k")
  return { batch = c.micro_batch, seq_q = math.max(1, shapes.divide("seq", c.seq, "cp", c.cp or 1) // c.tp),
    seq_k = c.seq, heads = c.index_heads, head_dim = c.index_head_dim, top_k = c.index_top_k }
end

local function pairs_of(s) return 0.5 * s.batch * s.seq_q * s.seq_k end

--- Product, ReLU, weighting and sum for each pair and head.
function op.flops(s, pass)
  return (pass == "backward" and 2.0 or 1.0) * pairs_of(s) * s.heads * (2.0 * s.head_dim + 3)
end

--- Queries, keys and head weights; fp32 scores are written, then read by the selection, which writes top_k indices.
function op.bytes(s, dtype)
  local rows = (s.batch + 0.0) * s.seq_q
  return width(dtype) * (rows * s.heads * (s.head_dim + 1) + (s.batch + 0.0) * s.seq_k * s.head_dim)
    + 8 * pairs_of(s) + 4 * rows * s.top_k
end

function op.activation_bytes(s, dtype)
  local rows = (s.batch + 0.0) * s.seq_q
  return width(dtype) * rows * s.heads * (s.head_dim + 1) + 4 * rows * s.top_k
end

--- One product with the same FLOPs as all pairs.
function op.kernel_shape(s)
  return { m = s.seq_q, n = math.max(1, s.seq_k // 2), k = s.head_dim, batch = s.batch * s.heads }
end

return op

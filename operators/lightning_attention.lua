--- Lightning attention: linear attention with a fixed decay per head, in chunks of products (MiniMax-01, arXiv
--- 2501.08313, section 2.2; Qin et al. 2024, arXiv 2401.04658).
-- C: tokens per chunk; D: width of a head. Multiply-adds per token and head:
--   Q K' of a chunk, and the decayed scores times V    2 C D
--   the state's update K' V, and Q times the state     2 D^2
local memory = require "ett.operator.memory"
local mixer = require "ett.operator.mixer"

local op = { name = "lightning_attention", family = "bmm",
  summary = "linear attention with a decay per head, in chunks" }

op.note = "timed as products of its size; no kernel of it was measured"
op.unmeasured = true

op.schema = { batch = "count", seq = "count", heads = "count", head_dim = "count", chunk = "count" }

function op.shape(c)
  local d, tokens = mixer.dims(c, "lightning"), mixer.tokens(c)
  return { batch = c.micro_batch, seq = tokens // c.micro_batch, heads = d.heads, head_dim = d.head_dim,
    chunk = math.min(d.chunk, tokens // c.micro_batch) }
end

-- Values of all heads: the size of queries, keys, values or outputs; and of the states of all chunks.
local function sizes_of(s)
  local values = (s.batch + 0.0) * s.seq * s.heads * s.head_dim
  return values, values * s.head_dim / s.chunk
end

--- Backward computes scores and states again, and has two products for each product of the forward pass.
function op.flops(s, pass)
  local chunk, state = s.chunk + 0.0, s.head_dim + 0.0
  local each = pass == "backward" and 5 * chunk + 5 * state or 2 * chunk + 2 * state
  return 2.0 * s.batch * s.seq * s.heads * s.head_dim * each
end

--- Forward reads queries, keys and values, and writes outputs; the fp32 states of chunks are written and read. Backward
--- also reads the output's gradient, writes three gradients, and the gradients of the states.
function op.bytes(s, dtype, pass)
  local values, states = sizes_of(s)
  if pass == "backward" then return memory.width(dtype) * 7 * values + 4 * 4 * states end
  return memory.width(dtype) * 4 * values + 2 * 4 * states
end

--- Stores queries, keys and values.
function op.activation_bytes(s, dtype) return memory.width(dtype) * 3 * (sizes_of(s)) end

--- A product per chunk and head with the same FLOPs.
function op.kernel_shape(s)
  local chunks = (s.seq + s.chunk - 1) // s.chunk
  return { m = s.chunk, n = s.head_dim, k = 2 * (s.chunk + s.head_dim), batch = s.batch * s.heads * chunks }
end

return op

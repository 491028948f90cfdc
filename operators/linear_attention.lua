--- Linear attention in chunks of products: lightning attention with a fixed decay per head (MiniMax-01, arXiv
--- 2501.08313, section 2.2; Qin et al. 2024, arXiv 2401.04658), RetNet (2307.08621), and with a decay per channel of
--- the keys gated linear attention (2312.06635), HGRN2 (2404.07904) and RWKV-6 (2404.05892).
-- C: tokens per chunk; K and V: widths of a key and a value. Multiply-adds per token and head:
--   Q K' of a chunk, and the decayed scores times V    C K + C V
--   the state's update K' V, and Q times the state     2 K V
local memory = require "ett.operator.memory"
local mixer = require "ett.operator.mixer"

local op = { name = "linear_attention", aliases = { "lightning_attention" }, family = "bmm",
  summary = "linear attention with decays, in chunks" }

op.note = "timed as products of its size; no kernel of it was measured"
op.unmeasured = true

op.schema = { batch = "count", seq = "count", heads = "count", key_dim = "count", value_dim = "count", chunk = "count",
  decays = "count?" }

function op.shape(c)
  local d, tokens = mixer.dims(c, "lightning"), mixer.tokens(c)
  return { batch = c.micro_batch, seq = tokens // c.micro_batch, heads = d.heads, key_dim = d.key_dim,
    value_dim = d.head_dim, decays = d.decays, chunk = math.min(d.chunk, tokens // c.micro_batch) }
end

-- Values of all keys (the size of queries or keys), of all values (or outputs), and of the states of all chunks.
local function sizes_of(s)
  local heads = (s.batch + 0.0) * s.seq * s.heads
  return heads * s.key_dim, heads * s.value_dim, heads * s.key_dim * s.value_dim / s.chunk
end

-- Multiply-adds per token and head: all, and the scores and the states alone.
local function products(s)
  local again = s.chunk * (s.key_dim + 0.0) + s.key_dim * (s.value_dim + 0.0)
  return again + s.value_dim * (s.chunk + s.key_dim + 0.0), again
end

--- Backward computes scores and states again, and has two products for each product of the forward pass.
function op.flops(s, pass)
  local all, again = products(s)
  return 2.0 * s.batch * s.seq * s.heads * (pass == "backward" and 2 * all + again or all)
end

--- Forward reads queries, keys and values, and writes outputs; the fp32 states of chunks are written and read. Backward
--- also reads the output's gradient, writes three gradients, and the gradients of the states. Decays per channel are
--- fp32 numbers of the keys' size, with gradients.
function op.bytes(s, dtype, pass)
  local keys, values, states = sizes_of(s)
  local decays = s.decays and keys or 0.0
  if pass == "backward" then
    return memory.width(dtype) * (4 * keys + 3 * values) + 4 * (4 * states + 2 * decays)
  end
  return memory.width(dtype) * 2 * (keys + values) + 4 * (2 * states + decays)
end

--- Stores queries, keys, values and decays per channel.
function op.activation_bytes(s, dtype)
  local keys, values = sizes_of(s)
  return memory.width(dtype) * (2 * keys + values) + (s.decays and 4 * keys or 0.0)
end

--- A product per chunk and head with the same FLOPs.
function op.kernel_shape(s)
  local chunks = (s.seq + s.chunk - 1) // s.chunk
  return { m = s.chunk, n = s.value_dim, k = math.max(1, math.floor((products(s)) / s.value_dim)),
    batch = s.batch * s.heads * chunks }
end

return op

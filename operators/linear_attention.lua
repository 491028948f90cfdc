--- Linear attention in chunks of products: lightning attention with a fixed decay per head (MiniMax-01, arXiv
--- 2501.08313, section 2.2; Qin et al. 2024, arXiv 2401.04658), RetNet (2307.08621), and with a decay per channel of
--- the keys gated linear attention (2312.06635), HGRN2 (2404.07904) and RWKV-6 (2404.05892).
-- C: tokens per chunk; K and V: widths of a key and a value. Multiply-adds per token and head:
--   Q K' of a chunk, and the decayed scores times V    C K + C V
--   the state's update K' V, and Q times the state     2 K V
local memory = require "ett.operator.memory"
local merged = require "ett.base.merged"
local mixer = require "ett.operator.mixer"

local op = { name = "linear_attention", aliases = { "lightning_attention" }, family = "bmm",
  summary = "linear attention with decays, in chunks" }

op.note = "follows measured kernels on Hopper and Blackwell, and on Ampere without decays per channel; on others it is "
  .. "timed as products of its size"
op.unmeasured = true -- on other devices

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

-- streams: time over that of op.bytes at the memory bandwidth, with the measured kernels' chunks of 64. computed: with
-- decays per channel, seconds of a multiprocessor for a value of queries, keys or values. None of these kernels was
-- measured on Hopper: Blackwell's rate, times the ratio of the two for gated_delta_rule.
local streams = { hopper = { forward = 1.12, backward = 1.86 }, blackwell = { forward = 1.66, backward = 3.5 } }
streams.ampere = streams.hopper -- not measured
local computed = { blackwell = { forward = 4.6e-9, backward = 1.5e-8 },
  hopper = { forward = 6.3e-9, backward = 2.1e-8 } }

--- Seconds of flash-linear-attention's kernels (pytorch/helion@fea89d2 and @3e928d1, BENCHMARKS.md of linear attention,
--- BSD-3): linear attention and retention on H100 and B200, gated linear attention and RWKV-6 on B200. Fitted to three
--- of the six shapes, with heads of 128. Median error on two others, with heads of 128 and 256: 18 % on H100 and on
--- B200, 37 % with decays per channel. Two runs on B200 differ by up to 2.2 times; the factors are geometric means.
function op.law(s, device, pass)
  if s.decays then
    local rate = device.multiprocessors and computed[device.generation]
    if not rate then return nil end
    local keys, values = sizes_of(s)
    return rate[pass] * (keys + values) / 2 / device.multiprocessors, 0.5,
      device.generation ~= "blackwell" and "assumed" or nil
  end
  local factor = streams[device.generation]
  if not factor then return nil end
  return factor[pass] * op.bytes(merged(s, { chunk = 64 }), "bf16", pass) / device.memory_bandwidth, 0.4,
    device.generation == "ampere" and "assumed" or nil
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

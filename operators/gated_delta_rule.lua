--- The gated delta rule in chunks of products (Yang et al. 2024, arXiv 2412.06464; the UT transform of 2406.06484).
-- C: tokens per chunk; K and V: widths of a key and a value. Multiply-adds per token and value head:
--   K K', then Q K', of a chunk                 2 C K
--   the inverse of a triangle of C              C^2 / 3
--   the inverse times keys and times values     C K + C V
--   keys times state, state's update, output    3 K V
--   the scores times the new values             C V
-- Kimi delta attention (arXiv 2510.26692) has a decay per channel of the keys: more bytes, the same products.
local memory = require "ett.operator.memory"
local mixer = require "ett.operator.mixer"
local shapes = require "ett.operator.shapes"

local op = { name = "gated_delta_rule", family = "bmm", summary = "gated delta rule in chunks" }

op.note = "follows measured kernels on Hopper and Blackwell; on other devices timed as products of its size"
op.unmeasured = true -- on other devices

op.schema = { batch = "count", seq = "count", heads = "count", key_heads = "count", key_dim = "count",
  value_dim = "count", chunk = "count", decays = "count?" }

op.constraints = { { "heads must be divisible by key_heads", function(s) return s.heads % s.key_heads == 0 end } }

function op.shape(c)
  local d = mixer.dims(c, "gated_delta")
  return { batch = c.micro_batch, seq = mixer.tokens(c) // c.micro_batch, heads = d.heads, key_heads = d.key_heads,
    key_dim = d.key_dim, value_dim = d.value_dim, decays = d.decays,
    chunk = math.min(d.chunk, shapes.divide("seq", c.seq, "cp", c.cp or 1)) }
end

--- Multiply-adds per token and head: all, and those that backward recomputes (all but Q K' and the output).
local function products(s)
  local chunk, key, value = s.chunk + 0.0, s.key_dim, s.value_dim
  local again = chunk * key + chunk ^ 2 / 3 + chunk * (key + value) + 2.0 * key * value
  return again + chunk * key + (key + chunk) * value, again
end

function op.flops(s, pass)
  local all, again = products(s)
  return 2.0 * s.batch * s.seq * s.heads * (pass == "backward" and 2 * all + again or all)
end

-- Numbers of a token besides queries, keys and values: per head, the rate of the update and the decays.
local function numbers_of(s) return s.heads * (1 + (s.decays or 1)) end

-- FLOP/s of one multiprocessor.
local rates = { hopper = 0.563e12, blackwell = 0.776e12 }

--- Seconds: a fixed start, the sequential chain of chunks, and the products. Fitted to half of the rows of
--- flash-linear-attention's kernel (SGLang 0.5.14) on H100 and B200 (NVIDIA AIConfigurator's tables, Apache 2.0).
--- Median error on the other half 13 % and 5 %; on held-out devices 9 % (GB300), 26 % (H200, whose rows contradict the
--- H100's) and 32 % (RTX PRO 6000). Backward takes 3.7 times as long, and with decays per channel both take 1.75 times
--- as long. Both ratios are means of three shapes of flash-linear-attention on B200 (pytorch/helion@3e928d1,
--- examples/linear/BENCHMARKS.md, BSD-3). On three others they are 3.1 to 4.3, and 1.5 to 1.9.
function op.law(s, device, pass)
  local rate = device.multiprocessors and rates[device.generation]
  if not rate then return nil end
  local chunks = (s.seq + s.chunk - 1) // s.chunk
  -- The kernels of the chunk steps exchange results through memory: 1.6 times op.bytes.
  local streams = 1.6 * op.bytes(s, "bf16", "forward") / device.memory_bandwidth
  local forward = (s.decays and 1.75 or 1) * (26e-6 + 1.44e-6 * chunks
    + math.max(op.flops(s, "forward") / (rate * device.multiprocessors), streams))
  if pass == "forward" then return forward, 0.3 end
  if device.generation == "blackwell" then return 3.7 * forward, 0.4 end
  return 3.7 * forward, 0.5, "assumed"
end

--- Queries and keys per key head, values and outputs per value head; per token and head the fp32 rate of the update and
--- the fp32 decays. The fp32 states of chunks are written and read.
function op.bytes(s, dtype, pass)
  local tokens, width = (s.batch + 0.0) * s.seq, memory.width(dtype)
  local streams = 4.0 * s.key_heads * s.key_dim + s.heads * (5.0 * s.value_dim + 2.0 * s.key_dim)
  local states = 2.0 * s.heads * s.key_dim * s.value_dim / s.chunk
  return (pass == "backward" and 2.5 or 1.0) * tokens * (width * streams + 4 * (states + numbers_of(s)))
end

--- Per head: the decay rate, and the bias of each decay.
function op.parameters(s) return numbers_of(s) end

--- Stores values, the fp32 numbers of each head, the inverse of each chunk, and queries and keys of each value head:
--- Transformers (Qwen3-Next) and Megatron-Core repeat them for the value heads of a key head. Kimi delta attention
--- also stores the scores of each chunk (flash-linear-attention, ChunkGatedDeltaRuleFunction and ChunkKDAFunction).
function op.activation_bytes(s, dtype)
  local triangles = (s.decays and 2 or 1) * s.chunk
  return (s.batch + 0.0) * s.seq * s.heads * memory.width(dtype) * (2 * s.key_dim + s.value_dim + triangles)
    + 4.0 * s.batch * s.seq * numbers_of(s)
end

--- A product per chunk and head with the same FLOPs.
function op.kernel_shape(s)
  local chunks = (s.seq + s.chunk - 1) // s.chunk
  return { m = math.min(s.chunk, s.seq), n = s.value_dim, k = math.max(1, math.floor((products(s)) / s.value_dim)),
    batch = s.batch * s.heads * chunks }
end

return op

--- Causal self-attention, forward: one fused kernel over whole sequences.
--
-- Work is counted in tiles of 128 queries by 128 keys. A small batch takes at least the time of the longest row of
-- tiles. The multiprocessors compute an exponential for each pair; half of this time overlaps the products.
local attention = { name = "attention", summary = "fused causal attention, forward", table = "attention_forward.csv",
  inputs = { "batch", "seq", "heads", "kv_heads", "head_dim", "window" }, texts = { "framework", "dtype" },
  frameworks = { "trtllm", "sglang", "vllm" },
  balance = 10, rounds = { default = 40 } }

local ceil, log, max, min = math.ceil, math.log, math.max, math.min

-- Share of the exponentials' time that does not overlap products. 0.5 had a smaller error on left-out devices than 0
-- and 1.
local exposed_exponentials = 0.5

--- Analytic seconds, and the features of the trees.
---@param device ett.Device
---@param dtype string of the products
---@param x table { batch, seq, heads, kv_heads, head_dim, window (0: none) }
---@return number seconds, number[] features
function attention.analyse(device, dtype, x)
  local windowed = x.window > 0 and x.window < x.seq
  local rows = ceil(x.seq / 128)
  local longest = windowed and min(rows, ceil(x.window / 128) + 1) or rows
  local columns = longest - longest * (longest - 1) / (2 * rows) -- mean; the first rows are shorter
  local tile = 128 * 128 * (4.0 * x.head_dim / device:peak(dtype) + exposed_exponentials / device:exponential_rate())
  local blocks = x.batch * x.heads * rows
  local waves = blocks / device.multiprocessors
  local last = longest * tile * device.multiprocessors
  local arithmetic = max(blocks * columns * tile, last)
  local bytes = 4.0 * x.batch * x.seq * (x.heads + x.kv_heads) * x.head_dim
  local memory = bytes / device.memory_bandwidth
  local seconds = max(arithmetic / 0.6, memory / 0.7) + 5e-6
  return seconds, { log(x.batch), log(x.seq), log(x.heads), log(x.kv_heads), x.head_dim, log(x.heads / x.kv_heads),
    log(blocks * columns), log(waves), waves / ceil(waves), log(arithmetic / memory),
    log(windowed and x.window or x.seq), log(bytes / device:l2_feature()), x.seq % 128, last / arithmetic,
    log(seconds) }
end

--- FLOPs of the pairs below the diagonal, or in the band of a window.
function attention.flops(x)
  local window = x.window > 0 and min(x.window, x.seq) or x.seq
  return 4.0 * x.batch * x.heads * x.head_dim * window * (x.seq - window / 2)
end

--- Rows with the same heads are held out together.
function attention.group(x) return ("%d %d %d"):format(x.heads, x.kv_heads, x.head_dim) end

return attention

--- Matrix products on tensor cores: C[m, n] = A[m, k] x B[k, n].
--
-- The analytic time is the longer of arithmetic and memory. Arithmetic runs in waves of output tiles over the
-- multiprocessors; the fastest of several tile sizes counts.
local gemm = { name = "gemm", summary = "matrix products, by data type", table = "gemm.csv",
  inputs = { "m", "n", "k" }, frameworks = { "trtllm", "aiter", "sglang", "vllm" },
  rounds = { default = 70, bf16 = 120, fp8 = 90 } }

--- Bytes of an element of A and B. Block formats store one scale for 128 (fp8_block), 32 (mxfp8, mxfp4) or 16 (nvfp4)
--- elements.
gemm.element_bytes = { fp32 = 4, tf32 = 4, bf16 = 2, fp16 = 2, int8 = 1, fp8 = 1, fp8_block = 1, mxfp8 = 1 + 1 / 32,
  nvfp4 = 0.5 + 1 / 16, mxfp4 = 0.5 + 1 / 32 }

-- { rows, columns, share of the multiprocessor's peak rate that a tile of this size reaches }; assumed, the trees
-- correct it.
local tiles = { { 64, 64, 0.5 }, { 64, 128, 0.65 }, { 128, 128, 0.85 }, { 128, 256, 1.0 }, { 256, 128, 1.0 } }

local ceil, log, max, min = math.ceil, math.log, math.max, math.min

-- Few tiles with a long k are split over k, and their partial sums are added in fp32: cuBLAS does; the kernels of block
-- formats (DeepGEMM, CUTLASS) do not.
local splits, whole = { 1, 2, 4, 8, 16 }, { 1 }
local of_blocks = { fp8_block = true, mxfp8 = true, nvfp4 = true, mxfp4 = true }

-- Seconds of arithmetic and of memory, and the bytes of the weight and of the rest.
local function parts(device, dtype, m, n, k)
  local per_multiprocessor = device:peak(dtype) / device.multiprocessors
  local arithmetic = math.huge
  for _, tile in ipairs(tiles) do
    local rows, columns, reached = tile[1], tile[2], tile[3]
    local count = ceil(m / rows) * ceil(n / columns)
    for _, split in ipairs(of_blocks[dtype] and whole or splits) do
      local waves = ceil(count * split / device.multiprocessors)
      local sums = split > 1 and 8.0 * split * m * n / device.memory_bandwidth or 0.0
      arithmetic = min(arithmetic, waves * 2.0 * rows * columns * k / split / (per_multiprocessor * reached) + sums)
      if count * split >= device.multiprocessors or k / split < 1024 then break end
    end
  end
  local size = gemm.element_bytes[dtype]
  local quantized = size < 2 and 2.0 * m * k or 0.0 -- the 16-bit activation that is quantised first
  local weight, rest = n * k * size, m * k * size + quantized + 2.0 * m * n
  return arithmetic, (weight + rest) / device.memory_bandwidth, weight, rest
end

local function time(arithmetic, memory)
  return max(arithmetic / 0.9, memory / 0.8) + 0.3 * min(arithmetic, memory) + 2.5e-6
end

-- How full the last wave of tiles is, and the number of waves up to 64.
local function filling(m, n, rows, columns, multiprocessors)
  local waves = ceil(m / rows) * ceil(n / columns) / multiprocessors
  return waves / ceil(waves), min(ceil(waves), 64)
end

--- The analytic seconds of a product, and what the trees see of it.
---@param device ett.Device
---@param dtype string
---@param x table { m, n, k }
---@return number seconds, number[] features
function gemm.analyse(device, dtype, x)
  local m, n, k = x.m, x.n, x.k
  local arithmetic, memory, weight, rest = parts(device, dtype, m, n, k)
  local seconds, sms = time(arithmetic, memory), device.multiprocessors
  local fill_small, waves_small = filling(m, n, 128, 128, sms)
  local fill_large, waves_large = filling(m, n, 128, 256, sms)
  local fill_flat = filling(m, n, 64, 128, sms)
  return seconds, { log(m), log(n), log(k), log(2.0 * m * n * k), log(2.0 * m * n * k / (weight + rest)),
    log(arithmetic / memory), fill_small, fill_large, fill_flat, waves_small, waves_large, m % 128, n % 256,
    log(weight / device.l2_bytes), log(rest / device.l2_bytes), log(seconds) }
end

--- Rows with the same weight are held out together.
function gemm.group(x) return ("%d %d"):format(x.n, x.k) end

--- The analytic seconds of `batch` independent products in one grouped kernel.
function gemm.grouped(device, dtype, batch, m, n, k)
  local per_multiprocessor = device:peak(dtype) / device.multiprocessors
  local arithmetic = math.huge
  for _, tile in ipairs(tiles) do
    local rows, columns, reached = tile[1], tile[2], tile[3]
    local waves = ceil(batch * ceil(m / rows) * ceil(n / columns) / device.multiprocessors)
    arithmetic = min(arithmetic, waves * 2.0 * rows * columns * k / (per_multiprocessor * reached))
  end
  local _, memory = parts(device, dtype, m, n, k)
  return time(arithmetic, batch * memory)
end

return gemm

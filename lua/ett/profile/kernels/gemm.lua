--- Matrix products on tensor cores: C[m, n] = A[m, k] x B[k, n].
--
-- The analytic time is the maximum of arithmetic and memory time. Arithmetic runs in waves of output tiles over the
-- multiprocessors; the fastest of several tile sizes is taken. Long products run at lower clocks. Small weights can
-- stay in the last-level cache between the runs of a benchmark.
local dtype_bytes = require("ett.base.schema").dtype_bytes
local table_at = require "ett.base.table_at"

local gemm = { name = "gemm", summary = "matrix products, by data type", table = "gemm.csv",
  inputs = { "m", "n", "k" }, texts = { "framework", "dtype" }, frameworks = { "trtllm", "aiter", "sglang", "vllm" },
  balance = 5, rounds = { default = 60, bf16 = 200, fp8 = 80 } }

-- { rows, columns, share of the multiprocessor's peak rate that a tile of this size reaches }; assumed, corrected by
-- the trees.
local tiles = { { 64, 64, 0.5 }, { 64, 128, 0.65 }, { 128, 128, 0.85 }, { 128, 256, 1.0 }, { 256, 128, 1.0 } }

local ceil, exp, log, max, min = math.ceil, math.exp, math.log, math.max, math.min

-- Split-K: with few tiles and a long k, cuBLAS splits k and adds the partial sums in fp32. The kernels of block formats
-- (DeepGEMM, CUTLASS) do not split k.
local splits, whole = { 1, 2, 4, 8, 16, 32, 64 }, { 1 }
local of_blocks = { fp8_block = true, mxfp8 = true, nvfp4 = true, mxfp4 = true }

-- Clocks fall during a long product: the ratio of measured to analytic time grows with duration on nearly all devices.
-- The exponent was fitted to small shapes and tested on large ones, all with m <= 4096 and n, k <= 8192.
local cool_seconds, heat, hottest_seconds = 3e-5, 0.0175, 0.02

-- Clocks of TPUs do not fall: products of 4096 to 32768 run at 893 to 956 TFLOP/s on TPU7x
-- (accelerator-microbenchmarks, Ironwood).
local function heated(device, arithmetic)
  if device.generation == "tpu" then return arithmetic end
  return arithmetic * max(1.0, min(arithmetic, hottest_seconds) / cool_seconds) ^ heat
end

-- The benchmark rotates over copies of the weights that exceed the last-level cache, at most 5 copies. If all operands
-- of the runs fit in the cache, products read them from the cache. cache_rate: bytes/s of one multiprocessor, from L40S
-- and RTX PRO 6000; the memory of the other devices is about as fast.
local most_copies, cache_rate = 5, 2e10

-- Seconds to move the operands of `batch` products once. Then the bytes of all runs' operands, divided by the size of
-- the cache.
local function memory_seconds(device, batch, weight, activation, output)
  local copies = min(most_copies, ceil(device.l2_bytes / (batch * weight)))
  local filled = batch * (copies * weight + activation + output) / device.l2_bytes
  local missed = max(0.0, min(1.0, (filled - 1.0) / 0.1))
  local cached = max(device.memory_bandwidth, cache_rate * device.multiprocessors)
  local per_byte = missed / device.memory_bandwidth + (1 - missed) / cached
  return batch * (weight * per_byte + (activation + output) / device.memory_bandwidth), filled
end

-- Bytes of the weight, of the activation (with the 16-bit original if it is quantised) and of the output.
local function operand_bytes(dtype, m, n, k)
  local size = dtype_bytes[dtype]
  return n * k * size, m * k * (size < 2 and size + 2 or size), 2.0 * m * n
end

-- Seconds of arithmetic of `batch` products, and the number of parts of k.
local function computed(device, dtype, batch, m, n, k, ways)
  local per_multiprocessor = device:peak(dtype) / device.multiprocessors
  local least, chosen = math.huge, 1
  for _, tile in ipairs(tiles) do
    local rows, columns, reached = tile[1], tile[2], tile[3]
    local count = batch * ceil(m / rows) * ceil(n / columns)
    for _, split in ipairs(ways) do
      local waves = ceil(count * split / device.multiprocessors)
      local sums = split > 1 and 8.0 * split * m * n / device.memory_bandwidth or 0.0
      local seconds = waves * 2.0 * rows * columns * k / split / (per_multiprocessor * reached) + sums
      if seconds < least then least, chosen = seconds, split end
      if count * split >= device.multiprocessors or k / split < 1024 then break end
    end
  end
  return heated(device, least), chosen
end

-- Assumed, corrected by the trees: shares of the peak rates; share of the shorter of arithmetic and memory time that
-- does not overlap the longer; seconds of starting a kernel.
local arithmetic_share, memory_share, exposed_share, start_seconds = 0.9, 0.8, 0.3, 2.5e-6

--- Whether a device's tables contain the kernels that quantise the activation. Those of AMD's aiter do not.
function gemm.quantises(device) return device.vendor ~= "amd" end

-- Start of these kernels: the smallest products of a data type take this much longer than those of bf16, on all NVIDIA
-- devices alike.
local quantising_seconds = { fp8 = 10e-6, fp8_block = 2.5e-6, nvfp4 = 4.5e-6 }

local function start(device, dtype)
  return start_seconds + (gemm.quantises(device) and quantising_seconds[dtype] or 0.0)
end

local function time(device, dtype, arithmetic, memory)
  return max(arithmetic / arithmetic_share, memory / memory_share) + exposed_share * min(arithmetic, memory)
    + start(device, dtype)
end

-- The occupied share of the last wave of tiles, and the number of waves, at most 64.
local function filling(m, n, rows, columns, multiprocessors)
  local waves = ceil(m / rows) * ceil(n / columns) / multiprocessors
  return waves / ceil(waves), min(ceil(waves), 64)
end

--- Analytic seconds of a product, and the features of the trees. For AMD, n % 256 and n % 1024 are no features: its
--- tables have few weights, and trees would recognise each weight by these numbers. Without them held-out errors are
--- equal (development splits, MI355X: fp8 9.2 to 9.0 %, bf16 7.0 to 7.1 %), and fewer times fall with more columns.
---@param device ett.Device
---@param dtype string
---@param x table { m, n, k }
---@return number seconds, number[] features
function gemm.analyse(device, dtype, x)
  local m, n, k = x.m, x.n, x.k
  local weight, activation, output = operand_bytes(dtype, m, n, k)
  local arithmetic, split = computed(device, dtype, 1, m, n, k, of_blocks[dtype] and whole or splits)
  local memory, filled = memory_seconds(device, 1, weight, activation, output)
  local seconds, sms, rest = time(device, dtype, arithmetic, memory), device.multiprocessors, activation + output
  local fill_small, waves_small = filling(m, n, 128, 128, sms)
  local fill_large, waves_large = filling(m, n, 128, 256, sms)
  local fill_flat = filling(m, n, 64, 128, sms)
  local columns = device.vendor == "amd" and 0 or n
  return seconds, { log(m), log(n), log(k), log(2.0 * m * n * k / (weight + rest)), log(arithmetic / memory),
    fill_small, fill_large, fill_flat, waves_small, waves_large, m % 128, columns % 256, columns % 1024, split,
    log(weight / device:l2_feature()), log(rest / device:l2_feature()), log(filled), log(seconds) }
end

-- Assembly kernels of AMD's aiter need n and k in multiples of 64 (aiter/tuned_gemm.py). For weights of 100, 200 and
-- 800 columns its table has only Triton kernels. They take up to ten times as long as weights of 256 columns.
local function misses_kernels(device, dtype, row)
  return device.vendor == "amd" and dtype == "bf16" and (row.n % 64 > 0 or row.k % 64 > 0)
end

-- A product is contradicted if its time is too long compared with the same weight and the next fewer rows: it grows
-- `steep` times as much as the analytic time, and `steep` times as much as in another framework. TensorRT-LLM's nvfp4
-- products of 32768 x 51200 on GB300 take 1.6 to 2.2 times as long as the time of 16384 rows suggests; SGLang's do not.
-- For large products, frameworks usually differ by a factor of up to 1.3 (the tables' README). Below large_flops the
-- choice of tiles also causes such steps.
local steep, large_flops = 1.4, 1e12

local function contradicted(device, dtype, rows)
  local by_weight, dropped = {}, {}
  for _, row in ipairs(rows) do
    if row.elsewhere then table.insert(table_at(by_weight, gemm.group(row)), row) end
  end
  for _, list in pairs(by_weight) do
    table.sort(list, function(a, b) return a.m < b.m end)
    local before = list[1]
    for i = 2, #list do
      local row = list[i]
      local grown = row.seconds / before.seconds / steep
      if gemm.flops(row) >= large_flops and grown > row.elsewhere / before.elsewhere
        and grown > gemm.analyse(device, dtype, row) / gemm.analyse(device, dtype, before) then
        dropped[row] = true
      else
        before = row
      end
    end
  end
  return dropped
end

--- Drops products with k over 65536: a table has 128 x 128 results with k up to 796544, computed on one multiprocessor.
--- Also drops products for which a tuner's table lacks the vendor's own kernels, and contradicted ones.
function gemm.sound(device, dtype, rows)
  local kept, dropped = {}, contradicted(device, dtype, rows)
  for _, row in ipairs(rows) do
    if row.k <= 65536 and not misses_kernels(device, dtype, row) and not dropped[row] then kept[#kept + 1] = row end
  end
  return kept
end

-- The smallest values of k in NVIDIA's tables. Between two of them, trees would keep the ratio of the smaller one; on
-- A100 the ratios of 128 and 256 differ by a third. AMD's tables have other values.
local depths = { 128, 256, 512 }

--- The two products with measured k on both sides of x, and the place of x between them, from 0 to 1; nil if k of x is
--- not between two such values.
function gemm.between(device, x)
  for i = 2, device.vendor == "amd" and 0 or #depths do
    local shorter, longer = depths[i - 1], depths[i]
    if x.k > shorter and x.k < longer then
      return { m = x.m, n = x.n, k = shorter }, { m = x.m, n = x.n, k = longer }, (x.k - shorter) / (longer - shorter)
    end
  end
  return nil
end

-- A size is doubled at most `most_doublings` times. Products whose analytic time is more than `longest` times that of x
-- are not tried: the trees rarely make them faster than x.
local most_doublings, longest = 4, 1.8

-- Fewer rows are not padded. For them libraries choose other kernels, which often take longer than those of larger
-- products: 8 rows on L40S in fp8 take up to 2.3 times as long as 16. Padding would raise the mean error of held-out
-- rows with fewer than 64 rows from 4.2 to 5.5 % (seed 22; L40S, RTX PRO 6000, B200 and GB300).
local least_rows = 64

-- If all sizes exceed this, hardly any time falls if a size doubles: 1 of 46,200 by more than 1 %.
local large_size = 1024

--- The larger products, of doubled sizes, whose kernels can compute x if the operands are padded with zeros. Libraries
--- sometimes choose a slower kernel for x: in the tables of a device and data type, up to 9 % of the times fall by more
--- than 1 % if a size doubles. If all sizes are at least 512, up to 1 % do.
function gemm.padded(device, dtype, x)
  if x.m < least_rows or min(x.m, x.n, x.k) > large_size then return {} end
  local limit, list = longest * gemm.analyse(device, dtype, x), {}
  -- Adds `larger` and the products with doubled sizes of these and later dimensions. Each product is added once.
  local function add(larger, dimension, doublings)
    if gemm.analyse(device, dtype, larger) > limit then return end
    list[#list + 1] = larger
    for i = dimension, #gemm.inputs do
      local name = gemm.inputs[i]
      local next_doublings = i == dimension and doublings + 1 or 1
      if next_doublings <= most_doublings then
        local next_larger = { m = larger.m, n = larger.n, k = larger.k }
        next_larger[name] = 2.0 * larger[name]
        add(next_larger, i, next_doublings)
      end
    end
  end
  add({ m = x.m, n = x.n, k = x.k }, 1, 0)
  return table.move(list, 2, #list + 1, 1)
end

--- Arithmetic share of an analytic time, from the values that `analyse` returned.
function gemm.arithmetic_share(seconds, features)
  return (1 - start_seconds / seconds) / (1 + exp(-features[gemm.balance]))
end

function gemm.flops(x) return 2.0 * x.m * x.n * x.k end

--- Rows with the same weight are held out together.
function gemm.group(x) return ("%d %d"):format(x.n, x.k) end

--- Analytic seconds of the parts of `batch` independent products: arithmetic; memory traffic of the operand that does
--- not grow with the tokens; that of the other operands.
---@param x table { batch, m, n, k, sums (k counts tokens, and the output does not grow; else m does) }
---@param how table { ways ("grouped" in one kernel, "apart" in one each), cached (weights may stay in the cache) }
---@return number arithmetic, number fixed, number growing
function gemm.parts(device, dtype, x, how)
  local batch, weight, activation, output = x.batch, operand_bytes(dtype, x.m, x.n, x.k)
  local together = how.ways == "grouped"
  local ways = (together or of_blocks[dtype]) and whole or splits
  local arithmetic = computed(device, dtype, together and batch or 1, x.m, x.n, x.k, ways) * (together and 1 or batch)
  local rate = device.memory_bandwidth / batch
  if x.sums then return arithmetic, output / rate, (weight + activation) / rate end
  local growing = (activation + output) / rate
  local fixed = how.cached and memory_seconds(device, batch, weight, activation, output) - growing or weight / rate
  return arithmetic, fixed, growing
end

gemm.time, gemm.start, gemm.arithmetic_reached, gemm.memory_reached = time, start, arithmetic_share, memory_share

--- Analytic seconds of `batch` independent products in one grouped kernel, and the arithmetic share.
function gemm.grouped(device, dtype, batch, m, n, k)
  local arithmetic, fixed, growing = gemm.parts(device, dtype, { batch = batch, m = m, n = n, k = k },
    { ways = "grouped", cached = true })
  local memory = fixed + growing
  return time(device, dtype, arithmetic, memory), arithmetic / (arithmetic + memory)
end

return gemm

--- The GPU side of `ett cluster init`: facts of device 0 from the driver, rates from short probes, the link to device 1
--- from a copy, and the text of the cluster file.
--
-- A product has two rates: the peak is from the best run, the sustained rate from the median over 0.4 s without a
-- pause.
local error_module = require "ett.base.error"
local must = error_module.must
local find = require "ett.base.find"

local gpu = {}

local PRECISIONS = { "fp32", "fp16", "bf16", "fp8" }
local SIZE = 8192 -- of a square product: 1.1 TFLOP
local COPY_BYTES = 256 << 20
local TIME_LIMIT_SECONDS = find.load("samplers", "cuda").time_limit_seconds

-- Share of a card's line rate that a collective reaches: 84.8 GB/s of the 100 of four HDR200 cards.
local LINE_SHARE = 0.85
local line_source = "line rates in /sys at 85 % (what NVIDIA/nccl-tests issue 119 reached on HDR200), not measured"

local copy_source = [[
extern "C" __global__ void copy_probe(const float4 *from, float4 *to, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i];
}
]]

--- Runs a probe. On failure the error names the probe, the device and the alternative.
local function probe(what, named, fn)
  local results = table.pack(pcall(fn))
  if results[1] then return table.unpack(results, 2, results.n) end
  local failure = error_module.from(results[2])
  error_module.raise(failure.kind, "cluster init: the probe of %s on %s failed: %s; nothing was written, --backend cpu "
    .. "writes a cluster of the processors", what, named, failure.message)
end

--- Best and median seconds of a work list: at least five runs, back to back for about the given time.
local function times(work, seconds)
  must(work:ready { time_limit_seconds = TIME_LIMIT_SECONDS })
  local once = must(work:time { repeats = 3, flush = false, time_limit_seconds = TIME_LIMIT_SECONDS })
  local repeats = math.max(5, math.min(1000, math.floor(seconds / math.max(1e-6, math.min(table.unpack(once))))))
  local all = must(work:time { repeats = repeats, flush = false, time_limit_seconds = TIME_LIMIT_SECONDS })
  table.sort(all)
  if all[1] <= 0 then error_module.raise("io", "a timed run took 0 s") end
  return all[1], all[(#all + 1) // 2]
end

--- Halves a size until `bytes` of it are at most a quarter of the device's memory.
local function fitting(size, info, bytes)
  while size > 256 and bytes(size) > info.memory_bytes / 4 do size = size // 2 end
  return size
end

local function product_rates(device, info, precision)
  local n = fitting(SIZE, info, function(size) return 12.0 * size * size end)
  local fp8 = precision == "fp8"
  local wide = fp8 and "bf16" or precision
  local work <close> = must(device:work(wide))
  local function tensor(dtype, fill, seed)
    return must(work:tensor { n, n, dtype = dtype, fill = fill, seed = seed })
  end
  must(work:gemm { a = tensor(precision, "normal", 1), b = tensor(precision, "normal", 2), c = tensor(wide, "zero", 3),
    m = n, n = n, k = n, batch = 1, trans_b = fp8, fast = fp8, autotune = true })
  local best, median = times(work, 0.4)
  return 2.0 * n ^ 3 / best, 2.0 * n ^ 3 / median, n
end

local function copy_rate(device, info)
  -- Larger than the L2 cache, so that no run reads data of the previous run from the cache.
  local bytes = fitting(math.max(COPY_BYTES, 4 * info.l2_bytes), info, function(size) return 2.0 * size end)
  local work <close> = must(device:work "fp32")
  local from = must(work:tensor { bytes // 4, dtype = "fp32", fill = "normal", seed = 1 })
  local to = must(work:tensor { bytes // 4, dtype = "fp32", fill = "zero" })
  local threads = bytes // 16
  must(work:kernel { source = copy_source, name = "copy_probe", label = "copy probe", grid = (threads + 255) // 256,
    block = 256, args = { { tensor = from }, { tensor = to }, threads } })
  return 2.0 * bytes / (times(work, 0.1)), bytes
end

--- The reason why no GPU cluster can be written, or nil. Second result: "missing" without a driver, a device or the
--- module, else the error kind of the driver.
function gpu.missing()
  local ok, why, kind = find.load("samplers", "cuda").available()
  if ok then return nil end
  return why, kind or "missing"
end

--- Facts and rates of device 0, and the link from it to device 1: { count, name, multiprocessors, memory_bytes,
--- capability, peaks and sustained (FLOP/s by precision), size (of the products), bandwidth (bytes/s), copy_bytes,
--- link = { bandwidth, direct, bytes, other } or nil }. Raises one sentence when a probe fails.
function gpu.look()
  local cuda = require "ett.cuda"
  local backend = find.load("samplers", "cuda")
  local count = must(cuda.available())
  local device <close> = probe("the device", "GPU 0", function() return must(cuda.open(0)) end)
  local info = device:info()
  local named = ("GPU 0 (%s)"):format(info.name)
  local facts = { count = count, name = info.name, multiprocessors = info.multiprocessors, capability = info.capability,
    memory_bytes = info.memory_bytes + 0.0, peaks = {}, sustained = {} }
  for _, precision in ipairs(PRECISIONS) do
    if backend.has(precision, info.capability) then
      facts.peaks[precision], facts.sustained[precision], facts.size = probe(precision .. " products", named, function()
        return product_rates(device, info, precision)
      end)
    end
  end
  facts.bandwidth, facts.copy_bytes = probe("the memory's bandwidth", named, function()
    return copy_rate(device, info)
  end)
  if count > 1 then
    facts.link = probe("the link to GPU 1", named, function()
      local other <close> = must(cuda.open(1))
      local bytes = fitting(COPY_BYTES, other:info(), function(size) return 2.0 * size end)
      local link = must(device:peer(other, { bytes = bytes, repeats = 8, time_limit_seconds = TIME_LIMIT_SECONDS }))
      link.bytes, link.other = bytes, other:info().name
      return link
    end)
  end
  return facts
end

--- The network of a node from its cards: { bandwidth_per_gpu, bandwidth_per_node (bytes/s), name, source } or nil. Uses
--- the InfiniBand ports if there are any (a RoCE card is listed as both), else the Ethernet cards.
function gpu.network(cards)
  local kind, total, fastest, names = nil, 0, 0, {}
  for _, wanted in ipairs { "infiniband", "ethernet" } do
    for _, card in ipairs(cards) do
      if card.kind == wanted and card.megabits then
        kind, total, fastest = wanted, total + card.megabits, math.max(fastest, card.megabits)
        names[#names + 1] = card.name
      end
    end
    if kind then break end
  end
  if not kind then return nil end
  local share = LINE_SHARE * 1e6 / 8
  return { bandwidth_per_gpu = fastest * share, bandwidth_per_node = total * share, name = table.concat(names, ", "),
    source = line_source }
end

local function number(value) return ("%.4g"):format(value) end

local function rates(by_precision)
  local words = {}
  for _, precision in ipairs(PRECISIONS) do
    local rate = by_precision[precision]
    if rate then words[#words + 1] = ("%s = %s"):format(precision, number(rate)) end
  end
  return "{ " .. table.concat(words, ", ") .. " }"
end

--- Adds the cluster's table to a file's lines.
---@param add fun(format: string, ...) adds a line
---@param name string
---@param facts table of cluster_init.look; facts.gpu from look()
function gpu.describe(add, name, facts)
  local g = facts.gpu
  local link, network = g.link, gpu.network(facts.cards)
  local product = ("%d^3 products by cuBLASLt on random data"):format(g.size)
  if link and link.other ~= g.name then add("-- GPU 1 is a %s: the device below is GPU 0.", link.other) end
  add("return {")
  add("  name = %q, summary = %q, source = probe,", name, ("%dx %s of %s"):format(g.count, g.name, facts.host))
  add("  gpus_per_node = %d, nodes = 1,", g.count)
  add("  device = {")
  add("    name = %q, multiprocessors = %d, memory_bytes = %d, -- as the driver says; compute capability %d.%d",
    (g.name:gsub("[^%w%-]", "")), g.multiprocessors, g.memory_bytes, g.capability // 10, g.capability % 10)
  add("    source = probe .. \": best run of %s; best copy of %d MiB inside the memory\",", product, g.copy_bytes >> 20)
  add("    peak_flops = %s,", rates(g.peaks))
  add("    memory_bandwidth = %s, probed = true,", number(g.bandwidth))
  add("    measured_flops = %s,", rates(g.sustained))
  add("    measured_source = probe .. \": median run of %s over 0.4 s\",", product)
  add("  },")
  add("  links = {")
  if link then
    add("    intra = { name = \"%s\", bandwidth = %s,", link.direct and "peer to peer" or "through the host's memory",
      number(link.bandwidth))
    add("      source = probe .. \": best one-way copy of %d MiB from GPU 0 to GPU 1, assumed for "
      .. "collectives\" },", link.bytes >> 20)
  end
  if network then
    add("    inter = { name = %q, bandwidth_per_gpu = %s, bandwidth_per_node = %s,", network.name,
      number(network.bandwidth_per_gpu), number(network.bandwidth_per_node))
    add("      source = %q },", network.source)
  end
  add("  },")
  add("}")
end

return gpu

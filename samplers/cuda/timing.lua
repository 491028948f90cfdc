--- Seconds of a work list by CUDA events, and the probe that detects a throttled clock.
local must = require("ett.base.error").must
local sample = require "ett.sample"

local timing = {}

--- Seconds after which a kernel is stopped (ETT_KERNEL_SECONDS).
timing.limit_seconds = require("ett.sampling.limit").seconds

--- A clock slower than the best one by this factor marks the row.
timing.slow_clock_ratio = 1.05

--- The repeat options of a shape, with defaults for those that the campaign does not set.
function timing.resolved(options)
  return { budget_seconds = options.budget_seconds or 0.05, target = options.target or 0.01,
    min_repeats = options.min_repeats or 7, max_repeats = options.max_repeats or 200 }
end

--- Seconds of a work list. Repeats until the low mean has the `target` precision or the budget is spent. The functions
--- of this file raise the errors of the device.
function timing.work(work, options)
  local r = timing.resolved(options)
  local budget, target, most, least = r.budget_seconds, r.target, r.max_repeats, r.min_repeats
  local seconds = must(work:time { repeats = math.min(3, most), time_limit_seconds = timing.limit_seconds })
  local began, stats = sample.now(), sample.stats(seconds)
  while #seconds < most and (#seconds < least or stats.half_width > target * stats.low_mean
      and sample.now() - began <= budget) do
    local more = must(work:time { repeats = math.min(20, most - #seconds),
      time_limit_seconds = timing.limit_seconds })
    table.move(more, 1, #more, #seconds + 1, seconds)
    stats = sample.stats(seconds)
  end
  local median = options.statistic == "median"
  return { seconds = median and stats.median or stats.low_mean, min_seconds = stats.min,
    median_seconds = stats.median, mean_seconds = stats.mean, half_width_seconds = stats.half_width,
    known_to = not median and stats.half_width / stats.low_mean or nil, repeats = #seconds, dropped = 0,
    raw_seconds = options.keep_raw and seconds or nil }
end

-- A chain of dependent multiply-adds counts its own cycles. Cycles divided by time is the SM clock; a clock below the
-- best one means a throttled device. With zero steps it is the shortest possible kernel.
local PROBE_STEPS = 20000
local probe_source = [[
extern "C" __global__ void clock_probe(float *out, long long *cycles, long long n) {
  float x = threadIdx.x;
  long long start = clock64();
  for (long long i = 0; i < n; i++) x = x * 0.999f + 0.5f;
  out[threadIdx.x] = x;
  if (threadIdx.x == 0) *cycles = clock64() - start;
}
]]

--- Calls fill(work) and returns the work and its result. Closes the work if fill raises.
function timing.filled(work, fill)
  local ok, result = pcall(fill, work)
  if ok then return work, result end
  work:close()
  error(result, 0)
end

local function probe_work(device, steps)
  return timing.filled(must(device:work("fp32")), function(work)
    local out = must(work:tensor { 32, dtype = "fp32", fill = "zero" })
    local cycles = must(work:tensor { 1, dtype = "int64", fill = "zero" })
    must(work:kernel { source = probe_source, name = "clock_probe", label = "clock probe", grid = 1, block = 32,
      args = { { tensor = out }, { tensor = cycles }, steps } })
    must(work:ready { time_limit_seconds = timing.limit_seconds })
    return cycles
  end)
end

--- { floor_seconds, clock_hz or nil, ratio() -> best clock / current clock, close() }
function timing.probe(device)
  local empty <close> = probe_work(device, 0)
  local floor = must(empty:time { repeats = 20, flush = false, time_limit_seconds = timing.limit_seconds })
  local work, cycles = probe_work(device, PROBE_STEPS)
  local probe, best = { floor_seconds = sample.stats(floor).low_mean }, nil
  function probe.ratio()
    local seconds = must(work:time { repeats = 3, flush = false, time_limit_seconds = timing.limit_seconds })
    local now = math.min(table.unpack(seconds))
    best = math.min(best or now, now)
    return now / best
  end
  function probe.close() work:close() end
  local _, count = timing.filled(work, function()
    probe.ratio()
    return must(work:read(cycles))
  end)
  if count[1] > 0 and best > probe.floor_seconds then
    probe.clock_hz = count[1] / (best - probe.floor_seconds)
  end
  return probe
end

return timing

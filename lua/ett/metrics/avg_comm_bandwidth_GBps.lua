--- Mean algorithm bandwidth of communication.
local stats = require "ett.trace.stats"
local totals = require "ett.trace.totals"

local metric = totals.metric {
  name = "avg_comm_bandwidth_GBps",
  summary = "message bytes divided by the time of their kernels, with and without waiting",
  definition = [[Sum of message bytes (nccl-tests' S) over the sum of durations, for the kernels that state both.
1 GB is 1e9 bytes; mean over devices. n/a where no bytes are known. Durations include waiting for the last rank.
without_waiting_GBps: the same over the transfer times (first end - last start) of the calls matched over ranks.]],
  needs = "communication rows with message sizes",
  unit = "GB/s",
  args = require("ett.trace.collective").args,
  differs = "the public tool averages the bandwidths of the kernels, so that tiny messages dominate",
  lacking = "needs message sizes (In msg nelems and dtype, Input Dims, or shape_with_layout); no communication row "
    .. "has them",
  value = function(lane)
    local bandwidth = totals.bandwidth(lane)
    return bandwidth and bandwidth / 1e9
  end,
}

metric.units.without_waiting_GBps = "GB/s"
metric.options = { "align", "tolerance_us" }

local with_waiting = metric.compute

function metric.compute(view)
  local out, bytes, ticks = with_waiting(view), 0.0, 0
  for _, found in ipairs(view:transfers()) do
    if found.each.bytes then
      bytes, ticks = bytes + found.each.bytes * #found.ticks, ticks + stats.sum(found.ticks)
    end
  end
  out.without_waiting_GBps = ticks > 0 and bytes / view:s(ticks) / 1e9 or stats.null
  return out
end

return metric

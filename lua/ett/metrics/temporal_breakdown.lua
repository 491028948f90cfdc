--- Breakdown of each device's span, with the causes of idle time.
local bulk = require "ett.bulk"
local stats = require "ett.trace.stats"

return {
  name = "temporal_breakdown",
  summary = "compute, exposed communication, copies and idle time with its cause, as shares of the span",
  definition = [[The span of a device in parts that add up to it: compute |K|, exposed communication |C - K|, exposed
copies |M - K - C| (memory_ms, memory_share: the time of copies beside other rows does not count), idle. The fields
outside ranks are means over the devices (ms) and shares of the sum of their spans. The row after a gap gives the cause:
"host" if it was launched after the gap began, "device" if before (dependency, stream order), "unknown" if its launch
was not recorded. Of rows that start together, the one launched first counts. Idle time is not the pipeline's bubble:
pipeline_bubble also counts rows outside a stage's passes, such as the update. idle_outside is window time before the
first and after the last row.]],
  needs = "device rows; launches (cuda_runtime …) with correlation for the causes",
  units = { compute_ms = "ms", exposed_comm_ms = "ms", memory_ms = "ms", idle_ms = "ms", idle_host_ms = "ms",
    idle_device_ms = "ms", idle_unknown_ms = "ms", idle_outside_ms = "ms", span_ms = "ms" },
  compute = function(view)
    local ranks, sums = {}, {}
    for _, lane in ipairs(view:lanes()) do
      local C, K, M = lane:comm(), lane:compute(), lane:memory()
      local span, busy = lane:span_ticks(), lane:busy():measure()
      local rows, calls = lane:launches()
      local host, device, unknown = bulk.idle(rows, calls, lane:gaps())
      local parts = {
        compute = K:measure(), exposed_comm = (C - K):measure(), memory = (M - (K | C)):measure(),
        idle = span - busy, idle_host = host, idle_device = device, idle_unknown = unknown,
        idle_outside = span - busy - (host + device + unknown),
      }
      local row = { span_ms = view:ms(span) }
      for name, ticks in pairs(parts) do
        row[name .. "_ms"] = view:ms(ticks)
        row[name .. "_share"] = stats.ratio(ticks, span)
        sums[name] = (sums[name] or 0) + ticks
      end
      sums.span = (sums.span or 0) + span
      ranks[lane.key] = row
    end
    local out = { ranks = ranks }
    for name, ticks in pairs(sums) do
      if name ~= "span" then out[name .. "_share"] = stats.ratio(ticks, sums.span) end
      out[name .. "_ms"] = view:ms(ticks) / #view:lanes()
    end
    return out
  end,
}

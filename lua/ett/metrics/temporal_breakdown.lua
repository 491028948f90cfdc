--- The span of each device split into what it was spent on, and why it was idle.
local stats = require "ett.trace_stats"

--- Idle ticks by cause: a gap belongs to the row that ends it. "host": that row was launched
--- after the gap began; "device": it was launched before and waited for the device (a
--- dependency, a stream); "unknown": its launch was not recorded.
local function idle_causes(view, lane)
  local causes = { host = 0, device = 0, unknown = 0 }
  local gaps = lane:busy():gaps()
  if #gaps == 0 then return causes end
  local rows = lane:touching():sort("ts")
  local runtime = view:cached("runtime_rows", function() return view.trace:events{ class = "runtime" } end)
  local starts = rows:columns{ "ts" }
  local launches = rows:match(runtime, "correlation"):columns{ "ts" }
  local i, n = 1, #starts
  for _, from, to in gaps:iter() do
    while i <= n and starts[i] < to do i = i + 1 end
    local launch = i <= n and launches[i]
    local cause = not launch and "unknown" or launch >= from and "host" or "device"
    causes[cause] = causes[cause] + (to - from)
  end
  return causes
end

return {
  name = "temporal_breakdown",
  summary = "compute, exposed communication, copies and idle time with its cause, as shares of the span",
  definition = [[The span of a device in parts that add up to it: compute |K|, exposed communication |C - K|,
copies that nothing covers |M - K - C|, idle. Idle between rows is "host" when the row after the gap was
launched after the gap began, "device" when it had been launched before (dependency, stream order), "unknown"
when its launch is not in the trace; idle_outside is window time before the first and after the last row.]],
  needs = "device rows; launches (cuda_runtime …) with correlation for the causes",
  units = { compute_ms = "ms", exposed_comm_ms = "ms", memory_ms = "ms", idle_ms = "ms" },
  args = { "hlo_category", "long_name" },
  compute = function(view)
    local ranks, sums = {}, {}
    for _, lane in ipairs(view:lanes()) do
      local C, K, M = lane:comm(), lane:compute(), lane:memory()
      local span, busy = lane:span_ticks(), lane:busy():measure()
      local causes = idle_causes(view, lane)
      local inside = causes.host + causes.device + causes.unknown
      local parts = {
        compute = K:measure(), exposed_comm = (C - K):measure(), memory = (M - (K | C)):measure(),
        idle = span - busy, idle_host = causes.host, idle_device = causes.device, idle_unknown = causes.unknown,
        idle_outside = span - busy - inside,
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

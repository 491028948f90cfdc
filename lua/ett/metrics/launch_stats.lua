--- How launches get to the device: delay, and how much work is queued.
local stats = require "ett.trace_stats"

--- Launched and not yet ended rows over time: greatest and time-weighted mean.
local function queue(starts, launches, ends)
  local events = {}
  for i = 1, #starts do
    if launches[i] then
      events[#events + 1] = { launches[i], 1 }
      events[#events + 1] = { ends[i], -1 }
    end
  end
  table.sort(events, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  local depth, most, weighted, last = 0, 0, 0.0, nil
  for _, event in ipairs(events) do
    if last then weighted = weighted + depth * (event[1] - last) end
    depth, last = depth + event[2], event[1]
    most = math.max(most, depth)
  end
  local length = #events > 0 and events[#events][1] - events[1][1] or 0
  return most, length > 0 and weighted / length or nil
end

return {
  name = "launch_stats",
  summary = "launch calls, delay from launch to start, and the length of the device's queue",
  definition = [[Per device, rows joined to their launch call by correlation. delay = start of the row - start
of the call (value at position floor(p n)); launch_call_us is the call itself on the host. Queue: rows launched
and not ended, greatest and mean over time. short_rows: rows shorter than their launch call, where the host is
the limit.]],
  needs = "device rows and launch calls (cuda_runtime, hip_runtime …) with correlation ids",
  units = { mean_delay_us = "us", p50_delay_us = "us", p95_delay_us = "us", max_queue = "count", mean_queue = "count" },
  compute = function(view)
    local t = view:events_needed()
    local runtime = view:cached("runtime_rows", function() return t:events{ class = "runtime" } end)
    local ranks, any = {}, 0
    for _, lane in ipairs(view:lanes()) do
      local rows = lane:rows("all")
      local own = stats.columns(rows, { "ts", "end", "dur" })
      local call = stats.columns(rows:match(runtime, "correlation"), { "ts", "dur" })
      local delays, calls, short = {}, 0.0, 0
      for i = 1, #rows do
        if call.ts[i] then
          delays[#delays + 1] = own.ts[i] - call.ts[i]
          calls = calls + call.dur[i]
          if own.dur[i] < call.dur[i] then short = short + 1 end
        end
      end
      table.sort(delays)
      local n = #delays
      any = any + n
      local most, mean = queue(own.ts, call.ts, own["end"])
      ranks[lane.key] = {
        rows = #rows, launched = n, without_launch = #rows - n, short_rows = short,
        mean_delay_us = n > 0 and view:us(stats.sum(delays)) / n or stats.null,
        p50_delay_us = n > 0 and view:us(stats.percentile(delays, 0.5)) or stats.null,
        p95_delay_us = n > 0 and view:us(stats.percentile(delays, 0.95)) or stats.null,
        max_delay_us = n > 0 and view:us(delays[n]) or stats.null,
        mean_launch_call_us = n > 0 and view:us(calls) / n or stats.null,
        max_queue = n > 0 and most or stats.null, mean_queue = stats.known(mean),
      }
    end
    if any == 0 then view:missing("needs launch calls with the correlation ids of device rows; no row has a launch") end
    return { ranks = ranks }
  end,
}

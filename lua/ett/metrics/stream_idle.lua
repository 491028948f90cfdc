--- Busy and idle time of every stream, with the causes of idle time.
local bulk = require "ett.bulk"
local stats = require "ett.trace.stats"

return {
  name = "stream_idle",
  summary = "busy and idle time of each stream, with the causes of idle time",
  definition = [[Per stream: the span of its own rows, cut to the window; busy: its united rows; idle: the gaps
between them. The row after a gap gives the cause: "host" if it was launched after the gap began, "device" if before
(another stream, stream order), "unknown" if its launch was not recorded. Of rows that start together, the one launched
first counts.]],
  needs = "device rows; launches (cuda_runtime …) with correlation for the causes",
  units = { span_ms = "ms", busy_ms = "ms", idle_ms = "ms", host_ms = "ms", device_ms = "ms", unknown_ms = "ms" },
  compute = function(view)
    local list = stats.list()
    for _, lane in ipairs(view:lanes()) do
      for _, group in ipairs(lane:touching():group{ "stream" }) do
        local rows, busy = group.events:sort("ts"), group.events:intervals()
        if lane.from then busy = busy:clip(lane.from, lane.to) end
        local gaps, recorded = busy:gaps(), lane:recorded()
        if recorded then gaps = gaps & recorded end
        if #busy > 0 then
          local host, device, unknown = bulk.idle(rows, rows:match(view:launch_calls(), "correlation"), gaps)
          local idle = gaps:measure()
          local span = busy:measure() + idle
          list[#list + 1] = { device = lane.key, stream = group.stream or stats.null, rows = #rows,
            span_ms = view:ms(span), busy_ms = view:ms(busy:measure()), idle_ms = view:ms(idle),
            host_ms = view:ms(host), device_ms = view:ms(device), unknown_ms = view:ms(unknown),
            idle_share = stats.ratio(idle, span) }
        end
      end
    end
    return { streams = list }
  end,
}

--- The critical path of the run through hosts, streams and ranks.
local replay = require "ett.trace.replay"
local stats = require "ett.trace.stats"

return {
  name = "critical_path",
  summary = "critical path over kernels, transfers and hosts of all ranks",
  definition = [[Events are starts and ends of device rows and of host calls. Each event waited for the latest of
these: the row before on its stream, its launch, the rows of other streams that it waits for (recorded as
synchronisation events, else a row that ended just before), the starts of its collective on all ranks, the host call
before, the row that a synchronisation waited for. The path begins at the last end of a device row and leads back from
each event to the one that it waited for, at most to the first device row of the rank. Time is booked on the event that
waited. host: time between and in host calls.]],
  needs = "device rows",
  units = { total_ms = "ms", time_ms = "ms", share = "share" },
  args = replay.args,
  options = { "align", "tolerance_us", "top" },
  compute = function(view, options)
    local g = replay.graph(view)
    local path = replay.critical_path(g)
    local parts, ranks = stats.list(), {}
    for i = 1, math.min(#path.parts, options.top or stats.default_top) do
      local part = path.parts[i]
      parts[i] = { name = part.name, time_ms = view:ms(part.ticks), count = part.count,
        share = stats.ratio(part.ticks, path.total_ticks) }
    end
    for key, ticks in pairs(path.ranks) do
      ranks[key] = { time_ms = view:ms(ticks), share = stats.ratio(ticks, path.total_ticks) }
    end
    return { total_ms = view:ms(path.total_ticks), parts = parts, ranks = ranks, changes_of_rank = path.changes_of_rank,
      events = #g.time }
  end,
}

--- Share of the span in which a device communicated.
local collective = require "ett.trace_collective"
local stats = require "ett.trace_stats"
local totals = require "ett.trace_totals"

return {
  name = "communication_fraction",
  summary = "share of the wall time with a communication kernel running",
  definition = "total_comm_time_s / wall_time_s of each device; mean over devices.",
  needs = "device rows",
  units = { communication_fraction = "share" },
  args = collective.args,
  compute = function(view)
    return totals.per_device(view, "communication_fraction", "mean",
      function(lane) return stats.ratio(lane:comm_ticks(), lane:span_ticks()) end)
  end,
}

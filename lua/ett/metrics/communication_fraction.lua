--- Share of the span in which a device communicated.
local collective = require "ett.trace.collective"
local stats = require "ett.trace.stats"
local totals = require "ett.trace.totals"

return {
  name = "communication_fraction",
  summary = "share of the wall time with a communication kernel running",
  definition = "total_comm_time_s / wall_time_s of each device; mean over devices.",
  needs = "device rows",
  units = { communication_fraction = "share" },
  args = collective.args,
  differs = "the public tool divides the communication of all chips together by the span of host and devices",
  compute = function(view)
    return totals.per_device(view, "communication_fraction", "mean",
      function(lane) return stats.ratio(lane:comm_ticks(), lane:span_ticks()) end)
  end,
}

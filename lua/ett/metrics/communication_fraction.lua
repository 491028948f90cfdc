--- Share of the span in which a device communicated.
local stats = require "ett.trace.stats"

return require("ett.trace.totals").metric {
  name = "communication_fraction",
  summary = "share of the wall time with a communication kernel running",
  definition = "total_comm_time_s / wall_time_s of each device; mean over devices.",
  needs = "device rows",
  unit = "share",
  args = require("ett.trace.collective").args,
  differs = "the public tool divides the communication of all chips together by the span of host and devices",
  value = function(lane) return stats.ratio(lane:comm_ticks(), lane:span_ticks()) end,
}

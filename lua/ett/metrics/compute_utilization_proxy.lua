--- Share of the span in which a device computed.
local stats = require "ett.trace.stats"

return require("ett.trace.totals").metric {
  name = "compute_utilization_proxy",
  summary = "share of the wall time with a compute kernel running",
  definition = [[total_compute_time_s / span of each device; mean over devices. It does not say how well the kernels use
the device.]],
  needs = "device rows",
  unit = "share",
  differs = "the public tool divides the compute of all chips together by the span of host and devices",
  value = function(lane) return stats.ratio(lane:compute():measure(), lane:span_ticks()) end,
}

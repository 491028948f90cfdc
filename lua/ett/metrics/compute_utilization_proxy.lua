--- Share of the span in which a device computed.
local stats = require "ett.trace.stats"
local totals = require "ett.trace.totals"

return {
  name = "compute_utilization_proxy",
  summary = "share of the wall time with a compute kernel running",
  definition = [[|K| / span of each device; mean over devices. Says nothing about how well the kernels use the
device.]],
  needs = "device rows",
  units = { compute_utilization_proxy = "share" },
  args = { "hlo_category", "long_name" },
  differs = "the public tool divides the compute of all chips together by the span of host and devices",
  compute = function(view)
    return totals.per_device(view, "compute_utilization_proxy", "mean",
      function(lane) return stats.ratio(lane:compute():measure(), lane:span_ticks()) end)
  end,
}

--- Time in which a device computed.
local totals = require "ett.trace.totals"

return {
  name = "total_compute_time_s",
  summary = "time with at least one compute kernel running",
  definition = [[|K| of united intervals of the device rows that are neither communication nor copies; mean over
devices.]],
  needs = "device rows",
  units = { total_compute_time_s = "s" },
  args = { "hlo_category", "long_name" },
  differs = "the public tool adds durations of whatever its word list takes for compute, all chips together",
  compute = function(view)
    return totals.per_device(view, "total_compute_time_s", "mean",
      function(lane) return view:s(lane:compute():measure()) end)
  end,
}

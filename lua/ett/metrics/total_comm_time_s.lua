--- Time in which a device communicated.
local collective = require "ett.trace.collective"
local totals = require "ett.trace.totals"

return {
  name = "total_comm_time_s",
  summary = "time with at least one communication kernel running",
  definition = [[|C| of united intervals; mean over devices. On TPU, where rows of a core do not overlap, the
sum of device_duration_ps, from which ts and dur are rounded.]],
  needs = "device rows",
  units = { total_comm_time_s = "s" },
  args = collective.args,
  differs = "the public tool goes by the op's name and so misses JAX's psum, which is an all-reduce",
  compute = function(view)
    return totals.per_device(view, "total_comm_time_s", "mean", function(lane) return view:s(lane:comm_ticks()) end)
  end,
}

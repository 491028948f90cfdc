--- Time from the first start to the last end on each device.
local totals = require "ett.trace.totals"

return {
  name = "wall_time_s",
  summary = "elapsed time that the device rows cover",
  definition = "Last end - first start of the device rows (the window with --step or --window); mean over devices.",
  needs = "device rows",
  units = { wall_time_s = "s" },
  differs = "the public tool takes host rows in as well, and so the time before the first kernel",
  compute = function(view)
    return totals.per_device(view, "wall_time_s", "mean", function(lane) return view:s(lane:span_ticks()) end)
  end,
}

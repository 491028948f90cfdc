--- Time from the first start to the last end on each device.
return require("ett.trace.totals").metric {
  name = "wall_time_s",
  summary = "time from the first start to the last end of the device rows",
  definition = "Last end - first start of the device rows (the window with --step or --window); mean over devices.",
  needs = "device rows",
  unit = "s",
  differs = "the public tool includes host rows, and with them the time before the first kernel",
  value = function(lane, view) return view:s(lane:span_ticks()) end,
}

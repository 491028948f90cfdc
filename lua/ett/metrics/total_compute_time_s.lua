--- Time in which a device computed.
return require("ett.trace.totals").metric {
  name = "total_compute_time_s",
  summary = "time with at least one compute kernel running",
  definition = [[Length of the union of the intervals of device rows that are neither communication nor copies; mean
over devices.]],
  needs = "device rows",
  unit = "s",
  differs = "the public tool adds the durations of all rows that match a list of words, over all chips",
  value = function(lane, view) return view:s(lane:compute():measure()) end,
}

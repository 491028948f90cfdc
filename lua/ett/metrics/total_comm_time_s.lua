--- Time in which a device communicated.
return require("ett.trace.totals").metric {
  name = "total_comm_time_s",
  summary = "time with at least one communication kernel running",
  definition = [[Length of the union of a device's communication intervals; mean over devices. On TPU, where rows of
a core do not overlap, the sum of device_duration_ps, of which ts and dur are rounded values. Intervals of asynchronous
collectives are united there, too.]],
  needs = "device rows",
  unit = "s",
  args = require("ett.trace.collective").args,
  differs = "the public tool matches the op's name and misses JAX's psum, which is an all-reduce",
  value = function(lane, view) return view:s(lane:comm_ticks()) end,
}

--- Number of communication kernels.
return require("ett.trace.totals").metric {
  name = "num_comm_kernels",
  summary = "number of communication kernels, over all devices",
  definition = "Device rows that are communication; sum over devices.",
  needs = "device rows",
  unit = "count",
  differs = "the public tool counts every row, host included, whose name or category holds a collective's name",
  fold = "sum",
  value = function(lane) return #lane:rows("comm") end,
}

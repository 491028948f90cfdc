--- Number of communication kernels.
return require("ett.trace.totals").metric {
  name = "num_comm_kernels",
  summary = "number of communication kernels, over all devices",
  definition = [[Device rows that are communication; an asynchronous collective on TPU counts once. Sum over
devices.]],
  needs = "device rows",
  unit = "count",
  differs = "the public tool counts every row, host included, whose name or category holds a collective's name",
  fold = "sum",
  value = function(lane) return (select(2, lane:comm_sum())) end,
}

--- Number of communication kernels with known bytes and time.
local totals = require "ett.trace.totals"

return totals.metric {
  name = "num_comm_kernels_w_size_and_time",
  summary = "communication kernels that state their message size and took time",
  definition = "Communication rows with message bytes and a duration above 0; sum over devices.",
  needs = "device rows",
  unit = "count",
  args = require("ett.trace.collective").args,
  differs = "the public tool falls back on bytes_accessed, which is memory traffic, not a message",
  fold = "sum",
  value = function(lane) return select(2, totals.bandwidth(lane)) end,
}

--- Number of communication kernels whose bytes and time are known.
local collective = require "ett.trace.collective"
local totals = require "ett.trace.totals"

return {
  name = "num_comm_kernels_w_size_and_time",
  summary = "communication kernels that state their message size and took time",
  definition = "Communication rows with message bytes and a duration above 0; sum over devices.",
  needs = "device rows",
  units = { num_comm_kernels_w_size_and_time = "count" },
  args = collective.args,
  differs = "the public tool falls back on bytes_accessed, which is memory traffic, not a message",
  compute = function(view)
    return totals.per_device(view, "num_comm_kernels_w_size_and_time", "sum",
      function(lane) return select(2, totals.bandwidth(lane)) end)
  end,
}

--- Mean algorithm bandwidth of communication.
local totals = require "ett.trace.totals"

return totals.metric {
  name = "avg_comm_bandwidth_GBps",
  summary = "bytes of the messages over the time of their kernels",
  definition = [[Sum of message bytes (nccl-tests' S) over the sum of durations, for the kernels that state both.
1 GB is 1e9 bytes; mean over devices. n/a where no bytes are known.]],
  needs = "communication rows with message sizes",
  unit = "GB/s",
  args = require("ett.trace.collective").args,
  differs = "the public tool averages the bandwidths of the kernels, so that tiny messages dominate",
  lacking = "needs message sizes (In msg nelems and dtype, Input Dims, or shape_with_layout); no communication row "
    .. "has them",
  value = function(lane)
    local bandwidth = totals.bandwidth(lane)
    return bandwidth and bandwidth / 1e9
  end,
}

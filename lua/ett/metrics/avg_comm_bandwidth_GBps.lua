--- Mean algorithm bandwidth of communication.
local collective = require "ett.trace.collective"
local totals = require "ett.trace.totals"

return {
  name = "avg_comm_bandwidth_GBps",
  summary = "bytes of the messages over the time of their kernels",
  definition = [[Sum of message bytes (nccl-tests' S) over the sum of durations of the kernels that state both,
1e9 bytes a second; mean over devices. n/a where no bytes are known.]],
  needs = "communication rows with message sizes",
  units = { avg_comm_bandwidth_GBps = "GB/s" },
  args = collective.args,
  differs = "the public tool averages the bandwidths of the kernels, which tiny messages dominate",
  compute = function(view)
    local any = 0
    local out = totals.per_device(view, "avg_comm_bandwidth_GBps", "mean", function(lane)
      local bandwidth, n = totals.bandwidth(lane)
      any = any + n
      return bandwidth and bandwidth / 1e9
    end)
    if any == 0 then
      view:missing("needs message sizes (In msg nelems and dtype, Input Dims, or shape_with_layout); no "
        .. "communication row has them")
    end
    return out
  end,
}

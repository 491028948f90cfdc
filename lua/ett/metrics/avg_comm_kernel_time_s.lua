--- Mean duration of a communication kernel.
local stats = require "ett.trace.stats"
local totals = require "ett.trace.totals"

return {
  name = "avg_comm_kernel_time_s",
  summary = "mean duration of a communication kernel",
  definition = [[Sum of the durations of the communication rows over their number: over all devices together, and
per device. An asynchronous collective on TPU counts once, from its start to its end.]],
  needs = "device rows with communication",
  units = { avg_comm_kernel_time_s = "s" },
  args = require("ett.trace.collective").args,
  differs = "the public tool includes host rows, and misses JAX's psum",
  compute = function(view)
    local ticks, count = 0.0, 0
    local out = totals.per_device(view, "avg_comm_kernel_time_s", "mean", function(lane)
      local sum, n = lane:collectives().sequence:sum()
      ticks, count = ticks + sum, count + n
      return n > 0 and view:s(sum / n) or nil
    end)
    if count == 0 then view:missing_communication() end
    out.avg_comm_kernel_time_s, out.num_comm_kernels = view:s(stats.ratio(ticks, count)), count
    out.over_devices = "all kernels"
    return out
  end,
}

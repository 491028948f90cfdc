--- Communication hidden behind compute.
local stats = require "ett.trace.stats"

return {
  name = "comm_comp_overlap",
  summary = "communication time, compute time and their overlap",
  definition = [[Per device: comm is the length of the union of the communication intervals, comp that of the compute
intervals, overlap the time that is in both. Over the devices, times are means, and ratios are those of the sums. A
ratio with a denominator of 0 is n/a.]],
  needs = "device rows",
  units = { comm_time_ms = "ms", comp_time_ms = "ms", overlap_time_ms = "ms", overlap_ratio_of_comm = "share",
    overlap_ratio_of_comp = "share" },
  differs = "the public tool reads one rank, adds durations without uniting them, and counts host rows named nccl:*",
  compute = function(view)
    local sums, ranks = { comm = 0, comp = 0, overlap = 0, comm_kernels = 0, comp_kernels = 0 }, {}
    local lanes = view:lanes()
    for _, lane in ipairs(lanes) do
      local C, K = lane:comm(), lane:compute()
      local c, k, x = C:measure(), K:measure(), (C & K):measure()
      sums.comm, sums.comp, sums.overlap = sums.comm + c, sums.comp + k, sums.overlap + x
      sums.comm_kernels = sums.comm_kernels + select(2, lane:comm_sum())
      sums.comp_kernels = sums.comp_kernels + #lane:rows("compute")
      ranks[lane.key] = {
        comm_time_ms = view:ms(c), comp_time_ms = view:ms(k), overlap_time_ms = view:ms(x),
        exposed_comm_time_ms = view:ms(c - x),
        overlap_ratio_of_comm = stats.ratio(x, c), overlap_ratio_of_comp = stats.ratio(x, k),
      }
    end
    local n = #lanes
    return {
      comm_time_ms = view:ms(sums.comm) / n, comp_time_ms = view:ms(sums.comp) / n,
      overlap_time_ms = view:ms(sums.overlap) / n,
      overlap_ratio_of_comm = stats.ratio(sums.overlap, sums.comm),
      overlap_ratio_of_comp = stats.ratio(sums.overlap, sums.comp),
      num_comm_kernels = sums.comm_kernels, num_comp_kernels = sums.comp_kernels, ranks = ranks,
    }
  end,
}

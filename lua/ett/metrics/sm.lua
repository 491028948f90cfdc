--- Share of the device's multiprocessors occupied by kernels.
local bulk = require "ett.bulk"
local stats = require "ett.trace.stats"

return {
  name = "sm",
  summary = "share of the multiprocessors that kernels cover, weighted by their time",
  definition = [[Coverage of a kernel = min(1, blocks per SM): below 1 some multiprocessors have no block. The mean
is weighted by duration: over the kernels that state it (mean_sm_coverage), and over the whole span with idle
as 0 (sm_coverage_over_span). mean_warps_per_sm and est_achieved_occupancy are the profiler's figures, weighted
the same way.]],
  needs = "kernels with the argument 'blocks per SM'",
  units = { mean_sm_coverage = "share", sm_coverage_over_span = "share", est_achieved_occupancy = "share" },
  args = { "blocks per SM", "warps per SM", "est. achieved occupancy %" },
  differs = "the public tool averages the first files only, and excludes idle time from every figure",
  compute = function(view)
    local ranks, sums = {}, { covered = 0.0, ticks = 0, span = 0 }
    for _, lane in ipairs(view:lanes()) do
      local rows = lane:rows("compute") + lane:rows("comm")
      local covered, ticks = bulk.weighted(rows, "blocks per SM", 1)
      local warps, warp_ticks = bulk.weighted(rows, "warps per SM")
      local occupancy, occupancy_ticks = bulk.weighted(rows, "est. achieved occupancy %", 100)
      local span = lane:span_ticks()
      sums.covered, sums.ticks, sums.span = sums.covered + covered, sums.ticks + ticks, sums.span + span
      ranks[lane.key] = {
        mean_sm_coverage = stats.ratio(covered, ticks), sm_coverage_over_span = stats.ratio(covered, span),
        mean_warps_per_sm = stats.ratio(warps, warp_ticks),
        est_achieved_occupancy = occupancy_ticks > 0 and occupancy / occupancy_ticks / 100 or stats.null,
        share_of_kernel_time_known = stats.ratio(ticks, rows:total()),
      }
    end
    if sums.ticks == 0 then view:missing("needs the argument 'blocks per SM' on kernels; no row has it") end
    return { mean_sm_coverage = sums.covered / sums.ticks, sm_coverage_over_span = stats.ratio(sums.covered, sums.span),
      ranks = ranks }
  end,
}

--- Share of the device's multiprocessors occupied by kernels.
local bulk = require "ett.bulk"
local stats = require "ett.trace.stats"

return {
  name = "sm",
  summary = "share of the multiprocessors that kernels cover",
  definition = [[Coverage of a kernel = min(1, blocks per SM): below 1 some multiprocessors have no block.
mean_sm_coverage: mean over the kernels that state it, weighted by duration. sm_coverage_over_span: mean over the span,
idle as 0; kernels that run at the same time are added, up to 1. mean_warps_per_sm and est_achieved_occupancy are the
profiler's figures, weighted by duration.]],
  needs = "kernels with the argument 'blocks per SM'",
  units = { mean_sm_coverage = "share", sm_coverage_over_span = "share", est_achieved_occupancy = "share" },
  args = { "blocks per SM", "warps per SM", "est. achieved occupancy %" },
  differs = "the public tool averages the first files only, and excludes idle time from every figure",
  compute = function(view)
    local ranks, sums = {}, { covered = 0.0, ticks = 0, over_span = 0.0, span = 0 }
    for _, lane in ipairs(view:lanes()) do
      local rows = lane:rows("compute") + lane:rows("comm")
      local covered, ticks = bulk.weighted(rows, "blocks per SM", 1)
      local warps, warp_ticks = bulk.weighted(rows, "warps per SM")
      local occupancy, occupancy_ticks = bulk.weighted(rows, "est. achieved occupancy %", 100)
      local touching, span = lane:touching_rows("compute") + lane:touching_rows("comm"), lane:span_ticks()
      local over_span = bulk.covered(touching, "blocks per SM", 1, lane:span())
      sums.covered, sums.ticks = sums.covered + covered, sums.ticks + ticks
      sums.over_span, sums.span = sums.over_span + over_span, sums.span + span
      ranks[lane.key] = {
        mean_sm_coverage = stats.ratio(covered, ticks), sm_coverage_over_span = stats.ratio(over_span, span),
        mean_warps_per_sm = stats.ratio(warps, warp_ticks),
        est_achieved_occupancy = occupancy_ticks > 0 and occupancy / occupancy_ticks / 100 or stats.null,
        share_of_kernel_time_known = stats.ratio(ticks, rows:total()),
      }
    end
    if sums.ticks == 0 and sums.over_span == 0 then
      view:missing("needs the argument 'blocks per SM' on kernels; no row has it")
    end
    return { mean_sm_coverage = stats.ratio(sums.covered, sums.ticks),
      sm_coverage_over_span = stats.ratio(sums.over_span, sums.span), ranks = ranks }
  end,
}

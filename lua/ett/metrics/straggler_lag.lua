--- Lag of the last rank after the first at the start of each collective.
local align = require "ett.trace.align"
local collective = require "ett.trace.collective"
local stats = require "ett.trace.stats"

local function gather(view, group, result, total)
  local lags = result.matches:lags()
  for i, ticks in ipairs(lags.lags) do lags.lags[i] = view:us(ticks) end
  table.move(lags.lags, 1, #lags.lags, #total.lags + 1, total.lags)
  total.spread, total.transfer = total.spread + lags.end_spread, total.transfer + lags.transfer
  total.negative = total.negative + lags.negative
  for r, member in ipairs(group.members) do
    local key = member.lane.key
    if lags.last[r] > 0 then stats.count(total.last, key, lags.last[r]) end
    if lags.last_lowest[r] > 0 then stats.count(total.last_lowest, key, lags.last_lowest[r]) end
    total.waits[key] = (total.waits[key] or 0) + lags.waits[r]
    total.counts[key] = (total.counts[key] or 0) + #member.list
    if not total.offsets[key] then -- of several groups of a rank the first
      total.offsets[key] = result.offsets[r]
      total.end_diff[key] = view:us(result.medians[r])
      if result.suspected[r] then total.suspected[key] = view:us(result.suspected[r]) end
      if result.clocks[r] then total.clocks[key] = view:us(result.clocks[r]) end
    end
  end
  total.groups = total.groups + 1
end

return {
  name = "straggler_lag",
  summary = "lag of the last rank at each collective, which rank it is, and the cost of waiting",
  definition = [[Collectives are matched inside their process group by sequence. First the offset of each rank's
recording is found: the one at which ends agree best. lag = last start - first start; wait of a rank = last start -
its start, summed; transfer = first end - last start; end_spread = last end - first end. Percentile p is the value
at position floor(p n) of the sorted lags. last_arriver counts a tie for the highest rank, last_arriver_lowest_tie
for the lowest. A constant difference of the hosts' clocks above a tenth of the tolerance is subtracted
(clock_difference_us); a smaller one is named as suspected. Offsets, end differences and clocks are relative to the
first rank of each rank's first matched group. --align none matches by index as recorded, clocks subtracts any
constant difference, force never refuses.]],
  needs = "device rows of at least two ranks that ran the same collectives",
  units = { mean_lag_us = "us", p50_lag_us = "us", p95_lag_us = "us", max_lag_us = "us", num_collectives = "count",
    wait_us_per_rank = "us", sum_transfer_us = "us" },
  args = collective.args,
  options = { "align", "tolerance_us" },
  differs = "the public tool matches the k-th kernel of each file as recorded: a missing one at the start shifts all",
  compute = function(view, options)
    local lanes = view:lanes()
    if #lanes < 2 then view:missing("needs at least two ranks; the trace has one device lane (%s)", lanes[1].key) end
    local total = { lags = {}, spread = 0, transfer = 0, negative = 0, last = {}, last_lowest = {}, waits = {},
      counts = {}, offsets = {}, end_diff = {}, clocks = {}, suspected = {}, groups = 0 }
    local refused = stats.list()
    local matched, alone = view:matched_groups()
    for _, each in ipairs(matched) do
      if each.result then gather(view, each.group, each.result, total) else
        refused[#refused + 1] = { group = each.group.group, reason = align.refusal(view, each) }
      end
    end
    local n = #total.lags
    if n == 0 then
      if refused[1] then view:missing("%s", refused[1].reason) end
      view:missing("needs a process group with collectives on two ranks or more; %d group(s) are on one rank", alone)
    end
    local sorted = stats.sorted(total.lags)
    local waits = {}
    for key, ticks in pairs(total.waits) do waits[key] = view:us(ticks) end
    return {
      num_collectives = n, mean_lag_us = stats.mean(total.lags), p50_lag_us = stats.percentile(sorted, 0.5),
      p95_lag_us = stats.percentile(sorted, 0.95), max_lag_us = sorted[n], sum_lag_us = stats.sum(total.lags),
      mean_end_spread_us = view:us(total.spread) / n, sum_transfer_us = view:us(total.transfer),
      negative_transfer = total.negative, last_arriver = total.last, last_arriver_lowest_tie = total.last_lowest,
      wait_us_per_rank = waits, collectives_per_rank = total.counts, offset_vs_first_rank = total.offsets,
      median_end_diff_us = total.end_diff, groups = total.groups, groups_on_one_rank = alone,
      clock_difference_us = next(total.clocks) and total.clocks or nil, groups_refused = refused,
      clock_difference_suspected_us = next(total.suspected) and total.suspected or nil,
      align = options.align or "auto",
    }
  end,
}

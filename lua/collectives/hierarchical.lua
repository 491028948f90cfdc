--- Hierarchical: reduce-scatter inside units, tier by tier outwards, then all-gather in reverse order.
--
-- Each tier handles the share of a rank after the inner tiers. The phases run one after the other. A phase also passes
-- the inner tiers whose links carry its messages outwards.
local function seconds(r)
  local rounds = r.kind == "all_reduce" and 2 or 1
  local total, outwards = r.base_latency, math.huge
  for _, tier in ipairs(r.tiers) do
    local n, of_rank = tier.branches, tier.rank_bandwidth
    if tier.used and tier.through then
      outwards = math.min(outwards, of_rank)
      of_rank = outwards
    end
    if tier.used and n > 1 then
      local left = r.bytes / tier.members -- share of a rank after the sum inside the unit
      total = total + rounds * ((n - 1) * tier.latency + left * (n - 1) / n / of_rank)
    end
  end
  return total, r.bytes * r.factor / total
end

return { name = "hierarchical", summary = "reduce-scatter and gather tier by tier",
  source = "Cho et al. 2019 (BlueConnect)", kinds = { "all_reduce", "all_gather", "reduce_scatter" },
  seconds = seconds }

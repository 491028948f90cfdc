--- Hierarchical: reduce-scatter inside units, tier by tier outwards, and gather on the way back.
--
-- Each tier works on what the tiers inside have left to one rank. The phases follow each other; a phase passes the
-- links of the inner tiers that carry messages outwards.
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
      local left = r.bytes / tier.members -- of a rank, when its unit has summed inside
      total = total + rounds * ((n - 1) * tier.latency + left * (n - 1) / n / of_rank)
    end
  end
  return total, r.bytes * r.factor / total
end

return { name = "hierarchical", summary = "reduce-scatter and gather tier by tier",
  source = "Cho et al. 2019 (BlueConnect)", kinds = { "all_reduce", "all_gather", "reduce_scatter" },
  seconds = seconds }

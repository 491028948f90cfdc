--- Hierarchical: reduce-scatter inside units, tier by tier outwards, and gather on the way back.
--
-- Each tier works on what the tiers inside have left to one rank. The phases follow each other.
local function seconds(r)
  local rounds = r.kind == "all_reduce" and 2 or 1
  local total, left = r.base_latency, r.bytes
  for _, tier in ipairs(r.tiers) do
    local n = tier.branches
    if tier.used and n > 1 then
      local rank_bandwidth = tier.bandwidth / tier.members
      total = total + rounds * ((n - 1) * tier.latency + left * (n - 1) / n / rank_bandwidth)
      left = left / n
    end
  end
  return total, r.bytes * r.factor / total
end

return { name = "hierarchical", summary = "reduce-scatter and gather tier by tier",
  source = "Cho et al. 2019 (BlueConnect)", kinds = { "all_reduce", "all_gather", "reduce_scatter" },
  seconds = seconds }

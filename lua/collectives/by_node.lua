--- By node: an all-to-all that first regroups data inside each unit, then sends one message to each other unit.
--
-- Outer tiers carry fewer and larger messages, at the cost of one more phase on inner tiers. The phases run one after
-- the other. A phase also passes the inner tiers whose links carry its messages outwards.
local function seconds(r)
  local total, outwards = r.base_latency, math.huge
  for _, tier in ipairs(r.tiers) do
    local n, of_rank = tier.branches, tier.rank_bandwidth
    if tier.used and tier.through then
      outwards = math.min(outwards, of_rank)
      of_rank = outwards
    end
    if tier.used and n > 1 then
      total = total + tier.latency + (n - 1) * tier.message_latency + r.bytes * (n - 1) / n / of_rank
    end
  end
  return total, r.bytes * r.factor / total
end

return { name = "by_node", summary = "all-to-all inside units, then between them",
  source = "Nie et al. 2022 (HetuMoE, hierarchical all-to-all)", kinds = { "all_to_all" }, seconds = seconds }

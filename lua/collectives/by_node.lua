--- By node: an all-to-all that regroups inside each unit first, so that one message goes to each other unit.
--
-- Fewer and larger messages over the outer tiers, for a further pass over the inner ones. The phases follow each other.
local function seconds(r)
  local total = r.base_latency
  for _, tier in ipairs(r.tiers) do
    local n = tier.branches
    if tier.used and n > 1 then
      local rank_bandwidth = tier.bandwidth / tier.members
      total = total + tier.latency + (n - 1) * tier.message_latency + r.bytes * (n - 1) / n / rank_bandwidth
    end
  end
  return total, r.bytes * r.factor / total
end

return { name = "by_node", summary = "all-to-all inside units, then between them",
  source = "Nie et al. 2022 (HetuMoE, hierarchical all-to-all)", kinds = { "all_to_all" }, seconds = seconds }

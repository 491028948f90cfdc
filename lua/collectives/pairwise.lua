--- Pairwise: each rank sends one share to every other rank directly, over all tiers at once.
local function seconds(r)
  if r.measured then return r.bytes * r.factor / r.measured, r.measured end
  local slowest, bus, latency, messages = 0.0, math.huge, 0.0, 0.0
  for _, tier in ipairs(r.tiers) do
    if tier.used then
      -- Peers outside the unit below; if outer tiers have separate links, only peers inside this tier.
      local peers = (tier.through and r.ranks or tier.most) - tier.members
      local own = r.bytes * peers / r.ranks / tier.rank_bandwidth
      if own > slowest then slowest, bus = own, tier.rank_bandwidth end
      latency = tier.latency
      messages = messages + (tier.most - tier.members) * tier.message_latency
    end
  end
  return r.base_latency + latency + messages + slowest, bus
end

return { name = "pairwise", summary = "all-to-all by pairs of ranks", source = "NVIDIA/nccl-tests doc/PERFORMANCE.md",
  kinds = { "all_to_all" }, seconds = seconds }

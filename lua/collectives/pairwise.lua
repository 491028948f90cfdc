--- Pairwise: each rank sends one share to every other rank directly, over all tiers at once.
--
-- Small messages inside a node use LL, as sends do (send.lua).
local function seconds(r)
  if r.measured then return r.bytes * r.factor / r.measured, r.measured end
  local slowest, bus, latency, messages, wire = 0.0, math.huge, 0.0, 0.0, nil
  for _, tier in ipairs(r.tiers) do
    if tier.used then
      -- Peers outside the unit below; if outer tiers have separate links, only peers inside this tier.
      local peers = (tier.through and r.ranks or tier.most) - tier.members
      local own = r.bytes * peers / r.ranks / tier.rank_bandwidth
      if own > slowest then slowest, bus = own, tier.rank_bandwidth end
      latency, wire = tier.latency, tier.wire
      messages = messages + (tier.most - tier.members) * tier.message_latency
    end
  end
  local total, ll = r.base_latency + latency + messages + slowest, r.protocols[1]
  if not ll or wire == "network" then return total, bus end
  local own = ll.ring
  return math.min(total, own.start + own[wire] * latency + messages + slowest / own.share), bus
end

return { name = "pairwise", summary = "all-to-all by pairs of ranks", source = "NVIDIA/nccl-tests doc/PERFORMANCE.md",
  kinds = { "all_to_all" }, seconds = seconds }

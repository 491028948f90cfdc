--- Send: one message from one rank to another. Concurrent messages out of a unit share its links.
--
-- NCCL sends small messages by LL inside a node only. Connections over the network have no buffers for it
-- (NVIDIA/nccl src/enqueue.cc, addP2pToPlan; NCCL_ALLOC_P2P_NET_LL_BUFFERS is 0).
local function timer(r)
  if r.curve then return { { moved = r.factor, curve = r.curve } } end
  local bandwidth, latency, wire = math.huge, 0.0, nil
  for _, tier in ipairs(r.tiers) do
    if tier.used then bandwidth, latency, wire = math.min(bandwidth, tier.bandwidth), tier.latency, tier.wire end
  end
  local law, ll = { start = r.base_latency + latency, { bandwidth = bandwidth } }, r.protocols[1]
  if not ll or wire == "network" then return law end
  return law, { start = ll.ring.start + ll.ring[wire] * latency, { bandwidth = ll.ring.share * bandwidth } }
end

return { name = "send", summary = "one message between two ranks", source = "latency and bandwidth of one link",
  kinds = { "send_recv" }, timer = timer }

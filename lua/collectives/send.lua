--- Send: one message from one rank to another. Concurrent messages out of a unit share its links.
local function timer(r)
  if r.curve then return { { moved = r.factor, curve = r.curve } } end
  local bandwidth, latency = math.huge, 0.0
  for _, tier in ipairs(r.tiers) do
    if tier.used then bandwidth, latency = math.min(bandwidth, tier.bandwidth), tier.latency end
  end
  return { start = r.base_latency + latency, { bandwidth = bandwidth } }
end

return { name = "send", summary = "one message between two ranks", source = "latency and bandwidth of one link",
  kinds = { "send_recv" }, timer = timer }

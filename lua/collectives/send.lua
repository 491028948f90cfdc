--- Send: one message from one rank to another. Concurrent messages out of a unit share its links.
local function timer(r)
  local bandwidth, latency = math.huge, 0.0
  for _, tier in ipairs(r.tiers) do
    if tier.used then bandwidth, latency = math.min(bandwidth, tier.bandwidth), tier.latency end
  end
  local start, factor = r.base_latency + latency, r.factor
  return function()
    if r.measured then return r.bytes * factor / r.measured, r.measured end
    return start + r.bytes / bandwidth, bandwidth
  end
end

return { name = "send", summary = "one message between two ranks", source = "latency and bandwidth of one link",
  kinds = { "send_recv" }, timer = timer }

--- Send: one message from one rank to another. All that leave a unit at once share its links.
local function seconds(r)
  if r.measured then return r.bytes * r.factor / r.measured, r.measured end
  local bandwidth, latency = math.huge, 0.0
  for _, tier in ipairs(r.tiers) do
    if tier.used then bandwidth, latency = math.min(bandwidth, tier.bandwidth), tier.latency end
  end
  return r.base_latency + latency + r.bytes / bandwidth, bandwidth
end

return { name = "send", summary = "one message between two ranks", source = "latency and bandwidth of one link",
  kinds = { "send_recv" }, seconds = seconds }

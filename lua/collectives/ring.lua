--- Ring: the buffer goes round all ranks in pieces, twice for an all_reduce. Its bandwidth is that of the slowest tier.
--
-- A ring over nodes leaves each node once, so that it has the bandwidth of the cards of its ranks there. Steps are
-- counted as NCCL's tuner does (NVIDIA/nccl src/graph/tuning.cc): an all_reduce takes 2 (n - 1), of which two for each
-- node are on the network.
local function seconds(r)
  if r.measured then return r.bytes * r.factor / r.measured, r.measured end
  local rounds = r.kind == "all_reduce" and 2 or 1
  local bus, outer, latency = math.huge, 0, 0.0
  for k = 2, #r.tiers do outer = outer + rounds * r.tiers[k].steps end
  for k, tier in ipairs(r.tiers) do
    if tier.used then bus = math.min(bus, tier.measured or tier.bandwidth) end
    local steps = k > 1 and rounds * tier.steps or math.max(0, rounds * (r.ranks - 1) - outer)
    latency = latency + steps * tier.latency
  end
  return r.base_latency + latency + r.bytes * r.factor / bus, bus
end

return { name = "ring", summary = "ring over all ranks", source = "NVIDIA/nccl-tests doc/PERFORMANCE.md",
  kinds = { "all_reduce", "all_gather", "reduce_scatter", "broadcast" }, seconds = seconds }

--- Ring: the buffer travels around all ranks in pieces, twice for an all_reduce. The slowest tier sets the bandwidth.
--
-- A ring over nodes leaves each node once, with the bandwidth of the cards of the group's ranks. Steps are counted as
-- in NCCL's tuner (NVIDIA/nccl src/graph/tuning.cc): an all_reduce takes 2 (n - 1), two per node over the network.
local function timer(r)
  if r.curve then return { { moved = r.factor, curve = r.curve } } end
  local rounds = r.kind == "all_reduce" and 2 or 1
  local outer, latency, law = 0, 0.0, {}
  for k = 2, #r.tiers do outer = outer + rounds * r.tiers[k].steps end
  for k, tier in ipairs(r.tiers) do
    if tier.used then
      law[#law + 1] = { moved = r.factor, bandwidth = not tier.curve and tier.bandwidth or nil, curve = tier.curve }
    end
    local steps = k > 1 and rounds * tier.steps or math.max(0, rounds * (r.ranks - 1) - outer)
    latency = latency + steps * tier.latency
  end
  law.start = r.base_latency + latency
  return law
end

return { name = "ring", summary = "ring over all ranks", source = "NVIDIA/nccl-tests doc/PERFORMANCE.md",
  kinds = { "all_reduce", "all_gather", "reduce_scatter", "broadcast" }, timer = timer }

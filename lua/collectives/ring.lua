--- Ring: the buffer travels around all ranks in pieces, twice for an all_reduce. The slowest tier sets the bandwidth.
--
-- A ring over nodes leaves each node once, with the bandwidth of the cards of the group's ranks. Steps are counted as
-- in NCCL's tuner (NVIDIA/nccl src/graph/tuning.cc, ncclTopoTuneModel): an all_reduce over N nodes takes 2 (n - 1),
-- 2 N of them over the network; a gather or reduce-scatter n - 1 and N - 1.
local once = { all_gather = true, reduce_scatter = true }

-- The outermost tier whose links the group uses between units.
local function outermost(r)
  for k = #r.tiers, 2, -1 do
    if r.tiers[k].steps > 0 then return k end
  end
end

local function timer(r)
  if r.curve then return { { moved = r.factor, curve = r.curve } } end
  local rounds, last = r.kind == "all_reduce" and 2 or 1, once[r.kind] and outermost(r)
  local outer, latency, law = 0, 0.0, {}
  for k, tier in ipairs(r.tiers) do
    if tier.used then
      law[#law + 1] = { moved = r.factor, bandwidth = not tier.curve and tier.bandwidth or nil, curve = tier.curve }
    end
    if k > 1 then
      local steps = rounds * tier.steps - (k == last and 1 or 0)
      outer, latency = outer + steps, latency + steps * tier.latency
    end
  end
  law.start = r.base_latency + latency + math.max(0, rounds * (r.ranks - 1) - outer) * r.tiers[1].latency
  return law
end

return { name = "ring", summary = "ring over all ranks", source = "NVIDIA/nccl-tests doc/PERFORMANCE.md",
  kinds = { "all_reduce", "all_gather", "reduce_scatter", "broadcast" }, timer = timer }

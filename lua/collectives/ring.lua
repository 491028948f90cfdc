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

-- Adds the streams of a tier. Inside a node, a ring reaches less than in-switch reduction, whose bandwidth and curve an
-- all_reduce of the node has: NVLink 4 carries 370 GB/s of a ring, against 480 (NVIDIA/nccl-tests issue 212).
local function add(law, r, tier, alone)
  law[#law + 1] = { moved = r.factor, bandwidth = not tier.curve and tier.bandwidth or nil, curve = tier.curve }
  if alone then return end
  if tier.ring_bandwidth then law[#law + 1] = { moved = r.factor, bandwidth = tier.ring_bandwidth } end
  if tier.ring_curve then law[#law + 1] = { moved = r.factor, curve = tier.ring_curve } end
end

local function timer(r)
  local last = outermost(r)
  local rounds, alone = r.kind == "all_reduce" and 2 or 1, r.kind == "all_reduce" and not last
  if r.curve and (alone or last) then return { { moved = r.factor, curve = r.curve } } end
  local outer, latency, law = 0, 0.0, {}
  for k, tier in ipairs(r.tiers) do
    if tier.used then add(law, r, tier, alone) end
    if k > 1 then
      local steps = rounds * tier.steps - (k == last and once[r.kind] and 1 or 0)
      outer, latency = outer + steps, latency + steps * tier.latency
    end
  end
  local hops = r.tiers[1].hops -- of a torus, whose axes work at the same time
  latency = latency + (hops and rounds * hops or math.max(0, rounds * (r.ranks - 1) - outer)) * r.tiers[1].latency
  law.start = r.curve and 0.0 or r.base_latency + latency -- a curve of the whole group has its latency
  return law
end

return { name = "ring", summary = "ring over all ranks", source = "NVIDIA/nccl-tests doc/PERFORMANCE.md",
  kinds = { "all_reduce", "all_gather", "reduce_scatter", "broadcast" }, timer = timer }

--- Ring: the buffer travels around all ranks in pieces, twice for an all_reduce. The slowest tier sets the bandwidth.
--
-- A ring over nodes leaves each node once, with the bandwidth of the cards of the group's ranks. Steps are counted as
-- in NCCL's tuner (NVIDIA/nccl src/graph/tuning.cc, ncclTopoTuneModel): an all_reduce over N nodes takes 2 (n - 1),
-- 2 N of them over the network; a gather or reduce-scatter n - 1 and N - 1.
-- Small messages take the fastest of its protocols.
local once = { all_gather = true, reduce_scatter = true }

-- The outermost tier whose links the group uses between units.
local function outermost(r)
  for k = #r.tiers, 2, -1 do if r.tiers[k].steps > 0 then return k end end
end

-- Adds the streams of a tier. Inside a node, a ring reaches less than in-switch reduction, whose bandwidth and curve an
-- all_reduce of the node has: NVLink 4 carries 370 GB/s of a ring, against 480 (NVIDIA/nccl-tests issue 212). A ring
-- over nodes takes the curves without their start, for its steps are counted.
--
-- In a mesh of links, one of the n ranks of a node sends over the network instead of to a neighbour. So the links of
-- the node carry (n - 1) / n of a ring. MI325X reach 350 GB/s over nodes, and 319 in a node (hisohara/ai-scripts
-- training/01_rccl-smoketest/README.md).
local function add(law, r, tier, alone, last)
  local curves, inside = last and tier.steady or { tier.curve }, 1.0
  if last and tier.mesh and tier.inside > 1 then inside = (tier.inside - 1) / tier.inside end
  if not tier.curve then law[#law + 1] = { moved = inside * r.factor, bandwidth = tier.bandwidth } end
  for _, curve in ipairs(curves) do law[#law + 1] = { moved = r.factor, curve = curve } end
  if alone then return end
  if tier.ring_bandwidth then law[#law + 1] = { moved = r.factor, bandwidth = tier.ring_bandwidth } end
  if tier.ring_curve and not last then law[#law + 1] = { moved = r.factor, curve = tier.ring_curve } end
end

-- Steps of the ring on each tier: those of the network, and the rest on the innermost tier's links.
local function steps_of(r, last)
  local rounds, outer, steps = r.kind == "all_reduce" and 2 or 1, 0, {}
  for k = 2, #r.tiers do
    steps[k] = rounds * r.tiers[k].steps - (k == last and once[r.kind] and 1 or 0)
    outer = outer + steps[k]
  end
  local hops = r.tiers[1].hops -- of a torus, whose axes work at the same time
  steps[1] = hops and rounds * hops or math.max(0, rounds * (r.ranks - 1) - outer)
  return steps
end

-- Seconds of posting a message to the network: the least of a step of a ring over nodes (NVIDIA/nccl
-- src/tuning/ring.cc, getNetOverhead: 2 us on AMD's processors, 1 us on others).
local post = 2e-6

-- The law of one of NCCL's protocols of small messages.
local function small(r, protocol, steps, over_nodes)
  local own = protocol.ring
  local start, rate = own.start, over_nodes and own.most or math.huge
  for k, tier in ipairs(r.tiers) do
    if tier.used then rate = math.min(rate, own.share * tier.ring_rate) end
    if steps[k] > 0 then
      local step = own[tier.wire] * (tier.latency - tier.added) + tier.added / 2 + tier.late
      start = start + steps[k] * math.max(step, over_nodes and post or 0.0)
    end
  end
  return { start = start, { moved = r.factor, bandwidth = rate } }
end

local function timer(r)
  local last = outermost(r)
  local alone = r.kind == "all_reduce" and not last
  if r.curve and (alone or last) then return { { moved = r.factor, curve = r.curve } } end
  local latency, law, laws, steps = 0.0, {}, {}, steps_of(r, last)
  local least = last and r.tiers[last].wire == "network" and r.post or 0.0
  for k, tier in ipairs(r.tiers) do
    if tier.used then add(law, r, tier, alone, last) end
    latency = latency + steps[k] * math.max(tier.latency, least)
  end
  law.start = r.curve and 0.0 or r.base_latency + latency -- a curve of the whole group has its latency
  laws[1] = law
  local over_nodes = last and r.tiers[last].wire == "network"
  local by_pairs = r.kind == "all_reduce" and not last and r.tiers[1].whole_mesh
  for _, protocol in ipairs(r.curve and {} or r.protocols) do
    local own = protocol.ring
    if own and not (over_nodes and own.inside) and not (by_pairs and own.by_pairs) then
      laws[#laws + 1] = small(r, protocol, steps, over_nodes)
    end
  end
  return table.unpack(laws)
end

return { name = "ring", summary = "ring over all ranks", source = "NVIDIA/nccl-tests doc/PERFORMANCE.md",
  kinds = { "all_reduce", "all_gather", "reduce_scatter", "broadcast" }, timer = timer }

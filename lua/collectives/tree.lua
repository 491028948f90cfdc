--- Tree: chains inside the innermost units, double binary trees between them.
--
-- Fewer steps than a ring, at 0.92 of its bandwidth (NVIDIA/nccl src/graph/tuning.cc). Inside the innermost unit each
-- byte travels once each way. Where switches inside the unit reduce (`hierarchical`: NCCL's NVLSTree), no chain passes
-- its ranks: two nodes of eight H100 reach 338 GB/s with 200 GB/s of cards (all_reduce on GCP a3mega).
local comm = require "ett.comm"

local efficiency = 0.92

local function log2(n)
  local steps = 0
  while n > 1 do n, steps = (n + 1) // 2, steps + 1 end
  return steps
end

-- Bytes that the busiest of n units sends in an all_reduce, for each byte of the buffer. Each of the two trees carries
-- half of the buffer, up and down. Of four units or more, one has a parent and two children in a tree, and a parent in
-- the other (NVIDIA/nccl src/graph/trees.cc, ncclGetDtree). Of three, the busiest sends 1.5; NCCL's tuner takes 2.0
-- from three on and prefers the ring. On three units of eight GB200 with 400 GB/s of cards, a ring reaches 394 GB/s. A
-- forced tree reaches 486 (NVIDIA/nccl issue 1801).
local function busiest(n) return n > 2 and 2.0 or 1.0 end

-- Without in-switch reduction, two nodes send at least the bytes of a ring over all ranks. By the trees it is half of
-- them, but by default two nodes of eight A100 reach the rate of their cards: 86 GB/s of 100 (NVIDIA/nccl-tests issue
-- 175), 85 to 96 (issue 119).
local function moved(r, tier, in_switch)
  local flat = comm.factor(r.kind, r.ranks)
  if r.kind ~= "all_reduce" then return flat end
  return in_switch and busiest(tier.below) or math.max(busiest(tier.below), flat)
end

-- Number of nodes: units below the innermost tier of a network.
local function nodes_of(r)
  for _, tier in ipairs(r.tiers) do if tier.wire == "network" then return tier.below end end
  return 1
end

local function reduces_in_switch(r)
  if r.tiers[1].inside < 2 then return false end
  for _, tier in ipairs(r.tiers) do
    if tier.used and tier.hierarchical then return r.kind == "all_reduce" end
  end
  return false
end

-- Streams of the links inside the innermost unit. A chain takes the curves without their start, for its steps are
-- counted. In-switch reduction has no chain, and the time of the unit's own all_reduce.
local function inside(r, tier, in_switch)
  local rounds, law = r.kind == "all_reduce" and 2 or 1, {}
  if in_switch then rounds = comm.factor("all_reduce", tier.inside) end
  local curves = in_switch and { tier.curve } or tier.steady
  if not tier.curve then law[1] = { moved = rounds, bandwidth = efficiency * tier.bandwidth } end
  for _, curve in ipairs(curves) do law[#law + 1] = { moved = rounds, bandwidth = efficiency, curve = curve } end
  if tier.ring_bandwidth and not in_switch then
    law[#law + 1] = { moved = rounds, bandwidth = efficiency * tier.ring_bandwidth }
  end
  return law
end

-- The shares of a protocol until NCCL changes to in-switch reduction, which it does too early. Measured: nccl-tests
-- issue 309, after 256 KiB on two nodes of H100 and after 1 MiB on four.
local function until_switch(shares, nodes)
  local most, cut = (nodes > 2 and 1 or 0.25) * 2 ^ 20, {}
  for i = 1, #shares, 2 do
    if shares[i] <= most then cut[#cut + 1], cut[#cut + 2] = shares[i], shares[i + 1] end
  end
  cut[#cut + 1], cut[#cut + 2] = 2 * most, 1e-3
  return cut
end

-- The law of one of NCCL's protocols of small messages, which do not reduce in switches. in_switch: larger messages of
-- the group do. alone: the group is in one node, where two chains meet at the root.
local function small(r, protocol, in_switch, alone)
  local own, first, law = protocol.tree, r.tiers[1], {}
  local shares = own.shares
  if in_switch and own.chains then shares = until_switch(shares, nodes_of(r)) end
  local function add(bytes, rate) law[#law + 1] = { moved = bytes, bandwidth = rate, curve = shares } end
  local rate = math.min(own.most or math.huge, first.used and own.share * first.ring_rate or math.huge)
  if rate < math.huge then add(2, rate) end
  local hops = alone and first.inside // 2 or first.inside - 1
  local start = hops * (own[first.wire] * first.latency + first.late)
  for k = 2, #r.tiers do
    local tier = r.tiers[k]
    if tier.used then
      start = start + log2(tier.branches) * (own[tier.wire] * (tier.latency - tier.added) + tier.added / 2)
      add(moved(r, tier, false), own.share * tier.bandwidth)
    end
  end
  law.start = own.start + 2 * start
  return law
end

local function timer(r)
  if r.curve then return nil end -- it holds the best algorithm
  local rounds, in_switch, first = r.kind == "all_reduce" and 2 or 1, reduces_in_switch(r), r.tiers[1]
  local law, laws, steps, over_nodes = first.used and inside(r, first, in_switch) or {}, {}, 0.0, false
  for k = 2, #r.tiers do
    local tier = r.tiers[k]
    if tier.used then
      local step = in_switch and r.in_switch.step * (tier.latency - tier.added) + tier.added or tier.latency
      steps, over_nodes = steps + log2(tier.branches) * step, tier.wire == "network"
      law[#law + 1] = { moved = moved(r, tier, in_switch), bandwidth = efficiency * tier.bandwidth,
        curve = in_switch and r.in_switch.shares or nil }
    end
  end
  local start = r.base_latency + rounds * (first.hops or first.inside - 1) * first.latency
  if in_switch then start = first.curve and 0.0 or r.in_switch.start end -- a curve has its own
  law.start = start + rounds * steps
  if not (over_nodes and first.inside > 1 and nodes_of(r) <= r.no_trees) then laws[1] = law end
  for _, protocol in ipairs(r.kind == "all_reduce" and r.protocols or {}) do
    local own = protocol.tree
    local alone = own and own.halves and not over_nodes -- two chains meet at the root
    if own and (over_nodes or alone) then laws[#laws + 1] = small(r, protocol, in_switch, alone) end
  end
  return table.unpack(laws)
end

return { name = "tree", summary = "chains inside nodes, binary trees between them",
  source = "NVIDIA/nccl src/graph/tuning.cc; Sanders, Speck and Traeff 2009", kinds = { "all_reduce", "broadcast" },
  timer = timer }

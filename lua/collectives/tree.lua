--- Tree: chains inside the innermost units, double binary trees between them.
--
-- Fewer steps than a ring, at 0.92 of its bandwidth (NVIDIA/nccl src/graph/tuning.cc). Inside the innermost unit each
-- byte travels once each way. On a tier whose units reduce first (`hierarchical`: NCCL's NVLSTree) a unit counts as one
-- rank: two nodes of eight H100 reach 338 GB/s with 200 GB/s of cards (all_reduce on GCP a3mega).
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
-- from three on and prefers the ring. On three units of eight GB200 with 400 GB/s of cards, a ring reaches 394 GB/s by
-- default, and a tree 486 if it is asked for (NVIDIA/nccl issue 1801).
local function busiest(n) return n > 2 and 2.0 or 1.0 end

local function timer(r)
  if r.curve then return nil end -- it holds the best algorithm
  local rounds = r.kind == "all_reduce" and 2 or 1
  local latency, law, in_switch = 0.0, {}, false
  for _, tier in ipairs(r.tiers) do in_switch = in_switch or tier.used and tier.hierarchical end
  for k, tier in ipairs(r.tiers) do
    if k == 1 then
      latency = latency + (tier.inside - 1) * tier.latency
      if tier.used then
        law[1] = { moved = rounds, bandwidth = efficiency * (tier.curve and 1 or tier.bandwidth), curve = tier.curve }
        if tier.ring_bandwidth and not in_switch then
          law[2] = { moved = rounds, bandwidth = efficiency * tier.ring_bandwidth }
        end
      end
    elseif tier.used then
      latency = latency + log2(tier.branches) * tier.latency
      law[#law + 1] = { moved = rounds == 2 and busiest(tier.below) or comm.factor(r.kind, r.ranks),
        bandwidth = efficiency * tier.bandwidth }
    end
  end
  law.start = r.base_latency + rounds * latency
  return law
end

return { name = "tree", summary = "chains inside nodes, binary trees between them",
  source = "NVIDIA/nccl src/graph/tuning.cc; Sanders, Speck and Traeff 2009", kinds = { "all_reduce", "broadcast" },
  timer = timer }

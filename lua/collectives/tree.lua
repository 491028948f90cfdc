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

local function seconds(r)
  if r.measured then return nil end -- the curve holds the best algorithm
  local rounds = r.kind == "all_reduce" and 2 or 1
  local stream, latency = 0.0, 0.0
  for k, tier in ipairs(r.tiers) do
    if k == 1 then
      latency = latency + (tier.inside - 1) * tier.latency
      if tier.used then stream = rounds * r.bytes / (efficiency * (tier.measured or tier.bandwidth)) end
    elseif tier.used then
      latency = latency + log2(tier.branches) * tier.latency
      local factor = comm.factor(r.kind, tier.hierarchical and tier.below or r.ranks)
      stream = math.max(stream, r.bytes * factor / (efficiency * tier.bandwidth))
    end
  end
  return r.base_latency + rounds * latency + stream, r.bytes * r.factor / stream
end

return { name = "tree", summary = "chains inside nodes, binary trees between them",
  source = "NVIDIA/nccl src/graph/tuning.cc; Sanders, Speck and Traeff 2009", kinds = { "all_reduce", "broadcast" },
  seconds = seconds }

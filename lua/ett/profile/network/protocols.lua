--- LL and LL128, NCCL's protocols of small messages. Their steps are faster than those of Simple, at a part of the
--- links' bandwidth.
---
--- Figures are those of NCCL's tuner (NVIDIA/nccl src/tuning/cost_model.cc, ring.cc and tree.cc; until 2025
--- src/graph/tuning.cc). Clusters state the latency of Simple's steps; steps of the others keep their ratio to it.
local protocols = {}

--- Links faster than PCIe 5 x16 are NVLink to the tuner.
protocols.pcie = 64e9

-- Of each algorithm: seconds of starting, and seconds of a step over those of a step of Simple, by kind of link.
-- `share`: of the bandwidth that Simple reaches. `most`: bytes/s of a group over several nodes. `inside`: in one node
-- only.
--
-- LL moves four bytes of flags with four of data. The tuner gives it 1/4 of a ring's rate (1/3 for gathers in a node,
-- 1/2 since 2026) and 1/3.8 of a tree's. Between nodes the hosts limit it: 19.0 GB/s with AMD's processors, 20.4 with
-- Intel's. Its step between nodes takes 5.0 us, as in the tuner's trees and rings of one device a node. The tuner's
-- 2.7 us of other rings are further from measured times (spec/comm/comm_spec.lua).
--
-- LL128 moves 120 bytes of 128, 0.92 of a ring's rate. The tuner also uses it between nodes. Published shares of the
-- cards of 2 to 128 nodes of eight (aliyun/SimAI inputs/ratio/nic_ratio.csv, 16 MB and more) have a mean error of 8 %
-- without LL128, and 14 % with it.
local ll = { name = "LL", most = 19e9,
  ring = { start = 6.6e-6, share = 1 / 4, nvlink = 0.6 / 3.4, pcie = 1.0 / 5.7, network = 5.0 / 14 },
  tree = { start = 6.8e-6, share = 0.92 / 3.8, nvlink = 0.6 / 3.4, pcie = 1.0 / 5.7, network = 5.0 / 14 } }
local ll128 = { name = "LL128", inside = true, ring = { start = 14e-6, share = 0.92, nvlink = 1.9 / 3.4 } }

local none, all, without_ll128 = {}, { ll, ll128 }, { ll }

--- The protocols that NCCL uses on these links. LL128 needs NVLink (cost_model.cc, isLL128Enabled: paths up to NVB).
---@param tiers table[] of a request
function protocols.of(tiers)
  local found = all
  for _, tier in ipairs(tiers) do
    if not tier.wire then return none end
    if tier.wire == "pcie" then found = without_ll128 end
  end
  return found
end

--- The kind of a tier's links for the tuner: `nvlink`, `pcie` or `network`; nil for tori, processors and devices of
--- other vendors. A node of one device has no links; they count as NVLink. Older files of `ett cluster init` state
--- processors by the stack alone.
function protocols.wire(cluster, tier, inside_node)
  local device = type(cluster.device) == "table" and cluster.device
  if device and device.vendor or cluster.stack == "cpu" or tier.torus then return nil end
  if not inside_node then return "network" end
  return tier.send and tier.send <= protocols.pcie and "pcie" or "nvlink"
end

return protocols

--- LL and LL128, the protocols of NCCL and RCCL for small messages. Their steps take less time than those of the
--- protocol Simple, but they reach only a part of the links' bandwidth.
---
--- The figures for NVIDIA's devices are from NCCL's tuner (NVIDIA/nccl src/tuning/cost_model.cc, ring.cc and tree.cc;
--- until 2025 src/graph/tuning.cc). Clusters state the latency of a step of Simple; steps of LL and LL128 keep the
--- tuner's ratio to it.
local protocols = {}

--- Links faster than PCIe 5 x16 are NVLink to the tuner.
protocols.pcie = 64e9

-- Each algorithm has these fields; lua/collectives/README.md describes them to authors of models:
--   start                  seconds of starting a collective
--   nvlink, pcie, network  seconds of a step over those of a step of Simple, by kind of link
--   share                  share of the bandwidth that Simple reaches
--   shares                 a curve of further shares by message size
--   most                   upper limit of a group over several nodes, bytes/s
--   inside                 true: for rings in one node only
--   chains                 true: for trees without in-switch reduction only
--
-- LL moves four bytes of flags with four bytes of data. The tuner gives it 1/4 of a ring's rate (1/3 for gathers in a
-- node, 1/2 since 2026) and 1/3.8 of a tree's rate. Between nodes the hosts limit it: 19.0 GB/s with AMD's processors,
-- 20.4 GB/s with Intel's. A step between nodes takes 5.0 us, as in the tuner's trees and in its rings with one device
-- per node. For other rings the tuner has 2.7 us, which is further from measured times (spec/comm/comm_spec.lua).
--
-- LL128 moves 120 bytes of data in 128: 0.92 of a ring's rate, 0.92 * 120 / 128 of a tree's. The tuner also uses it
-- between nodes. There it agrees with measured times of trees on two nodes of A100 (1 to 16 MB: the mean error is 8 %,
-- without LL128 28 %). It does not agree for trees with in-switch reduction (B200, 512 KB to 16 MB: 50 %, without LL128
-- 20 %). For rings, a source publishes the shares of the cards' bandwidth that 2 to 128 nodes of eight reach
-- (aliyun/SimAI inputs/ratio/nic_ratio.csv, 16 MB and more). Their mean error is 8 % without LL128, and 14 % with it.
--
-- Trees with messages of medium size are slower than start and rate suggest: `shares` are the tuner's (cost_model.cc,
-- treeCorrectionFactor; powers of two from 64 B). ett leaves out the shares of Simple. They would raise times of 64 MB
-- over 4 to 128 nodes of A100 by 5 to 10 %, others by at most 6 %; no published time was found that confirms this.
local function curve_of(factors)
  local curve = {}
  for i, factor in ipairs(factors) do curve[2 * i - 1], curve[2 * i] = 2.0 ^ (5 + i), factor end
  return curve
end

local ll = { name = "LL",
  ring = { start = 6.6e-6, share = 1 / 4, most = 19e9, nvlink = 0.6 / 3.4, pcie = 1.0 / 5.7, network = 5.0 / 14 },
  tree = { start = 6.8e-6, share = 0.92 / 3.8, most = 19e9, nvlink = 0.6 / 3.4, pcie = 1.0 / 5.7, network = 5.0 / 14,
    shares = curve_of { 1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1 } } }
local ll128 = { name = "LL128", ring = { inside = true, start = 14e-6, share = 0.92, nvlink = 1.9 / 3.4 },
  tree = { chains = true, start = 14e-6, share = 0.92 * 120 / 128, nvlink = 1.25 / 3.4, network = 8.5 / 14,
    shares = curve_of { 1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9,
      1 } } }

-- RCCL's figures for Infinity Fabric, which its tuner treats as NVLink (ROCm/rccl src/graph/tuning.cc: baseLat, hwLat
-- and bwRatio of tuning_model_5 and tuning_model_6, gfx942 and gfx950). For other devices, such as gfx90a (MI250X),
-- they are assumed. The tuner chooses LL128 by size and has no rate for it. Measured times agree with NCCL's rate of
-- LL128 for rings in a node, but not for trees over nodes (spec/comm/comm_spec.lua).
local rccl_ll = { name = "LL", ring = { start = 12e-6, share = 0.08, nvlink = 0.8 / 3.4, network = 9.5 / 14 },
  tree = { start = 12e-6, share = 0.06, nvlink = 0.9 / 3.4, network = 10.5 / 14 } }
local rccl_ll128 = { name = "LL128", ring = { inside = true, start = 12e-6, share = 0.92, nvlink = 0.8 / 3.4 } }

local none, all, without_ll128 = {}, { ll, ll128 }, { ll }
local rccl = { rccl_ll, rccl_ll128 }

--- The protocols that the cluster's library uses on these links. NCCL's LL128 needs NVLink (cost_model.cc,
--- isLL128Enabled: paths up to NVB).
---@param tiers table[] of a request
function protocols.of(tiers, cluster)
  local device = type(cluster.device) == "table" and cluster.device
  local found = device and device.vendor == "amd" and rccl or all
  for _, tier in ipairs(tiers) do
    if not tier.wire then return none end
    if tier.wire == "pcie" then found = without_ll128 end
  end
  return found
end

local function vendor_of(cluster) return type(cluster.device) == "table" and cluster.device.vendor or nil end

--- Whether the devices of a cluster are processors. Older files of `ett cluster init` state them by the stack alone.
function protocols.of_processors(cluster) return vendor_of(cluster) == "cpu" or cluster.stack == "cpu" end

--- The kind of a tier's links for the tuner: `nvlink`, `pcie` or `network`; nil for tori, for processors, and for
--- vendors other than NVIDIA and AMD. A node of one device has no links; its tier counts as NVLink.
function protocols.wire(cluster, tier, inside_node)
  local vendor = vendor_of(cluster)
  if vendor and vendor ~= "amd" or protocols.of_processors(cluster) or tier.torus then return nil end
  if not inside_node then return "network" end
  if vendor == "amd" then return "nvlink" end
  return tier.send and tier.send <= protocols.pcie and "pcie" or "nvlink"
end

return protocols

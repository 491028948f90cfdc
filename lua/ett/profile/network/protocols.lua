--- LL and LL128, the protocols of NCCL and RCCL for small messages. Their steps take less time than those of the
--- protocol Simple, but they reach only a part of the links' bandwidth.
---
--- The figures for NVIDIA's devices are from NCCL's tuner (NVIDIA/nccl src/tuning/cost_model.cc, ring.cc and tree.cc;
--- until 2025 src/graph/tuning.cc). Clusters state the latency of a step of Simple; steps of LL and LL128 keep the
--- tuner's ratio to it.
local protocols = {}

--- Links faster than PCIe 5 x16 are NVLink to the tuner.
protocols.pcie = 64e9

--- Seconds of a step of Simple over the network, in NCCL's tuner.
protocols.network = 14e-6

-- Each protocol has those of the tables `ring`, `tree` and `pairs` (exchange of all pairs,
-- lua/collectives/all_pairs.lua) that it supports. They have these fields, which lua/collectives/README.md describes to
-- authors of models:
--   start                  seconds of starting a collective
--   nvlink, pcie, network  seconds of a step over those of a step of Simple, by kind of link
--   share                  share of the bandwidth that Simple reaches
--   shares                 a curve of further shares by message size
--   most                   upper limit of a group over several nodes, bytes/s
--   inside                 true: for rings in one node only
--   halves                 true: two chains of a node meet at the root of the tree
--   by_pairs               true: not for an all_reduce of a whole mesh
--   chains                 true: with in-switch reduction only up to the size at which NCCL changes
-- Simple also has `post`, the least seconds of a step of a ring over nodes, and `no_trees`, the number of nodes up to
-- which the library has no trees.
--
-- LL moves four bytes of flags with four bytes of data. The tuner gives it 1/4 of a ring's rate (1/3 for gathers in a
-- node, 1/2 since 2026) and 1/3.8 of a tree's rate. Between nodes the hosts limit it: 19.0 GB/s with AMD's processors,
-- 20.4 GB/s with Intel's. A step between nodes takes 5.0 us, as in the tuner's trees and in its rings with one device
-- per node. For other rings the tuner has 2.7 us, which is further from measured times (spec/comm/comm_spec.lua).
--
-- LL128 moves 120 bytes of data in 128: 0.92 of a ring's rate, 0.92 * 120 / 128 of a tree's. The tuner also uses it
-- between nodes. There it agrees with measured times of trees on two nodes of A100 (1 to 16 MB: the mean error is 8 %,
-- without LL128 28 %). Where switches reduce, trees use it up to 256 KiB or 1 MiB (lua/collectives/tree.lua). For
-- rings, a source publishes the shares of the cards' bandwidth that 2 to 128 nodes of eight reach (aliyun/SimAI
-- inputs/ratio/nic_ratio.csv, 16 MB and more). Their mean error is 8 % without LL128, and 14 % with it.
--
-- Trees with messages of medium size are slower than start and rate suggest: `shares` are the tuner's (cost_model.cc,
-- treeCorrectionFactor; powers of two from 64 B).
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

--- Trees of Simple with in-switch reduction (NVLSTree). `start`: seconds of starting, for any number of ranks. `step`:
--- a step over the network, divided by a step of other trees.
---
--- `shares`: the tuner's for Simple, which it applies to these trees on Blackwell. Four nodes of H100 take such times:
--- from 2 to 256 MB the mean error is 8 %, and 15 % without them (NVIDIA/nccl-tests issue 309). Other trees do without:
--- their times of 64 MB over 4 to 128 nodes of A100 would rise by 5 to 10 %. No published time confirms this.
protocols.in_switch = { start = 25e-6, step = 20.9 / 14,
  shares = curve_of { 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7,
    0.7, 0.8, 0.9, 0.9, 1 } }

-- RCCL's figures for Infinity Fabric, which its tuner treats as NVLink (ROCm/rccl src/graph/tuning.cc: baseLat, hwLat
-- and bwRatio). gfx942 and gfx950 (MI300X, MI355X) have tuning_model_5 and tuning_model_6, gfx90a (MI250X) has
-- tuning_model_0 (RCCL's page "Hardware-specific optimizations"). In a node, two chains of LL meet at the root of a
-- tree (`halves`; treeBase of src/graph/rome_models.cc).
--
-- On gfx942 and gfx950 the tuner chooses LL128 by size and has no rate for it. Measured times agree with NCCL's rate
-- for rings in a node, and for trees over two nodes with the steps of tuning_model_0. LL128 ends between 4 and 8 MiB
-- on two nodes of MI300X (the tuner's llProtoRanges: 9.4 MB), and after 16 MiB on MI355X (17.7 MB). On gfx90a it has to
-- be enabled for the node (ll128Enabled). There LL has 0.04 of 161 GB/s (bwRatio, baseBw), 0.07 of the links of
-- frontier.
--
-- RCCL does not choose trees of Simple for two nodes (bwRatio 0.11; `no_trees`). So some all_reduces take less time
-- over three nodes than over two: 16 MiB over nodes of eight MI300X 227 us instead of 309. For these trees on three or
-- more nodes no measured time is known: only 4 and 16 GiB on four nodes, where rings are faster. Rings of Simple over
-- nodes post three messages per step, of 2 us each on AMD's processors (getNetOverhead).
--
-- All pairs of a mesh start as rings of two steps. LL reaches 3/8 of the links there, Simple 0.7 (256 KiB to 8 MiB on
-- eight MI300X: hisohara/ai-scripts training/01_rccl-smoketest/README.md).
local function up_to(most) return { 64, 1, most, 1, 2 * most, 1e-3 } end

local rccl_pairs = { name = "Simple", post = 6e-6, no_trees = 2,
  pairs = { start = 17e-6, share = 0.7, nvlink = 2.1 / 3.4 } }
local rccl_ll = { name = "LL", ring = { start = 12e-6, share = 0.08, nvlink = 0.8 / 3.4, network = 9.5 / 14 },
  tree = { halves = true, start = 12e-6, share = 0.06, nvlink = 0.9 / 3.4, network = 10.5 / 14 },
  pairs = { start = 12e-6, share = 3 / 8, nvlink = 0.8 / 3.4 } }

local function rccl_ll128(most)
  return { name = "LL128",
    ring = { inside = true, by_pairs = true, start = 12e-6, share = 0.92, nvlink = 0.8 / 3.4 },
    tree = most and { start = 12e-6, share = 0.92, nvlink = 1.4 / 3.4, network = 18.2 / 14, shares = up_to(most) } }
end

local none, all, without_ll128 = {}, { ll, ll128 }, { ll }
local rccl = {
  cdna2 = { { name = "LL", ring = { start = 12e-6, share = 0.07, nvlink = 0.8 / 3.4, network = 9.5 / 14 },
    tree = { halves = true, start = 12e-6, share = 0.07, nvlink = 0.8 / 3.4, network = 11.8 / 14 } }, rccl_ll128(nil),
    { name = "Simple", post = 6e-6, no_trees = 2 } },
  cdna3 = { rccl_ll, rccl_ll128(4 * 2 ^ 20), rccl_pairs },
  cdna4 = { rccl_ll, rccl_ll128(16 * 2 ^ 20), rccl_pairs },
}

--- The protocols that the cluster's library uses on these links. NCCL's LL128 needs NVLink (cost_model.cc,
--- isLL128Enabled: paths up to NVB).
---@param tiers table[] of a request
function protocols.of(tiers, cluster)
  local device = type(cluster.device) == "table" and cluster.device
  local found = device and device.vendor == "amd" and (rccl[device.generation] or rccl.cdna3) or all
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

--- Seconds by which a step of Simple over a tier of the network exceeds the tuner's. NCCL's tuner adds the latency that
--- the network's plug-in states: once to steps of LL and LL128, twice to those of Simple, which also flush
--- (src/tuning/tree.cc). So `added` is twice that latency.
function protocols.added(cluster, tier, inside_node)
  if protocols.wire(cluster, tier, inside_node) ~= "network" then return 0.0 end
  return math.max(0.0, tier.latency - protocols.network)
end

--- Seconds of posting each further message to a network: NCCL's tuner has 2 us on AMD's processors, whose nodes AMD's
--- devices are in, and 1 us on others (src/tuning/ring.cc, getNetOverhead). All_to_alls over two nodes of eight, of few
--- bytes, take 37 us on MI355X (prasad-nair-amd/alibaba README.md) and on B200, 22 without it. On eight nodes of eight
--- H800, 8 MiB take 296 to 338 us (NVIDIA/nccl issue 1531). ett estimates 231, and 175 without these messages.
function protocols.message(cluster, tier, inside_node)
  if protocols.wire(cluster, tier, inside_node) ~= "network" then return 0.0 end
  return vendor_of(cluster) == "amd" and 2e-6 or 1e-6
end

-- Shares of the links that five to seven of eight AMD devices reach alone on a node. RCCL has prepared rings for eight
-- devices (ROCm/rccl src/graph/rome_models.cc, rome_model_79), and more channels for two and four (src/init.cc,
-- allGather3Data.nc). For other numbers it searches at most two rings, which have four channels in all
-- (src/graph/search.cc, ncclTopoCompute: maxChannels = 2). Two rings use all links of three devices.
--
-- few_channels: rings, over one link of 58.1 GB/s. All_reduces among 5 to 7 MI355X reach 38 GB/s, among four 162 and
-- among eight 386 (public notes on Megatron-LM, June 2026). Gathers of 5 to 7 are up to four times as fast if kernels
-- use all links (ROCm/rocm-systems issue 10956). The share of MI300X's links is assumed to be equal.
--
-- few_exchange: all_to_alls of six and seven, over those of fewer devices. With 64 MiB, 2 to 7 MI355X reach 52.9,
-- 103.5, 140.2, 160.6, 108.7 and 126.0 GB/s (ROCm/rocm-systems pull request 10957). These are 47.9 GB/s a link for two
-- to five devices, and 21.4 for six and seven.
local few_channels, few_exchange = 38 / 58.1, 21.4 / 47.9

--- Shares of the links of a mesh of `size` devices that n devices of one node reach: in rings, and in all_to_alls. Each
--- pair of devices has links of its own, so at most (n - 1) / (size - 1).
---
--- On eight MI355X RCCL's all_to_all reaches 361 GB/s, its rings 407 (oci-ai-incubations/oci-gpu-quickstarts
--- amd/MI355X/README.md, 8 GiB). AMD accepts 340 and 390 (ROCm/cvs single_node_mi355_rccl.json).
---@param alone boolean whether the whole group is in one node
function protocols.mesh_shares(cluster, size, n, alone)
  local links = (n - 1) / (size - 1)
  if vendor_of(cluster) ~= "amd" then return links, links end
  if n == size then return links, 361 / 407 end
  local searched = alone and size == 8 and n > 4
  return searched and few_channels / (size - 1) or links, searched and n > 5 and few_exchange * links or links
end

return protocols

--- Leonardo Booster: four A100 with 64 GB and 124 multiprocessors, two dual-port HDR100 cards. For literature.tsv.
local find, devices = require "ett.base.find", require "ett.profile.device"
local cluster, device = find.load("clusters", "dgx_a100"), devices.get "a100_sxm"
local page = "leonardo-supercomputer.cineca.eu, HPC system; Turisini et al. (arXiv 2307.16885)"

device.name, device.memory_bytes, device.memory_bandwidth = "A100-SXM-64GB", 68e9, 1.64e12
device.multiprocessors, device.l2_bytes = 124, 32 * 2^20
for dtype, rate in pairs(device.peak_flops) do device.peak_flops[dtype] = rate * 124 / 108 end
device.measured_flops = nil
cluster.name, cluster.gpus_per_node, cluster.device, cluster.source = "leonardo", 4, device, page
cluster.summary = "4x A100-SXM-64GB per node, NVLink between every pair, 4x HDR100 InfiniBand"
cluster.links.intra.curves[8] = nil
cluster.links.inter = { name = "4x InfiniBand HDR100", bandwidth_per_gpu = 10.6e9, bandwidth_per_node = 42.5e9,
  source = "85 % of 4x 12.5 GB/s, the share of dgx_a100" }
return cluster

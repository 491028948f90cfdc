--- Nodes of four H200 with NVLink and InfiniBand NDR, as Harvard's Kempner Institute has. For literature.tsv.
local find = require "ett.base.find"
local cluster, curves = find.load("clusters", "dgx_h200"), find.load("clusters", "dgx_h100").links.intra.curves

curves[8] = nil
cluster.name, cluster.gpus_per_node, cluster.source = "h200_4", 4, "KempnerInstitute/KempnerForge, benchmarks"
cluster.summary = "4x H200-SXM-141GB per node, NVLink, 4x NDR400 InfiniBand"
cluster.links.intra.curves = curves
cluster.links.inter = { name = "4x InfiniBand NDR400", hierarchical = true, bandwidth_per_gpu = 48.2e9,
  bandwidth_per_node = 192.8e9, source = "half of dgx_h200; one card for each GPU assumed" }
return cluster

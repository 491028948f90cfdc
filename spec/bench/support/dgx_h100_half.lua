--- Nodes of a DGX H100 whose runs use four GPUs and their cards. For literature.tsv.
local find = require "ett.base.find"
local cluster = find.load("clusters", "dgx_h100")

cluster.name, cluster.gpus_per_node = "dgx_h100_half", 4
cluster.summary = "4 of the 8 H100-SXM-80GB of a node, 4x NDR400 InfiniBand"
cluster.links.intra.curves[8] = nil
cluster.links.inter.bandwidth_per_node = cluster.links.inter.bandwidth_per_node / 2
return cluster

--- DGX-1: eight V100-SXM2-32GB on a hybrid cube mesh, four EDR InfiniBand cards. For literature.tsv.
local find = require "ett.base.find"
local cluster = find.load("clusters", "dgx2")

cluster.name, cluster.gpus_per_node, cluster.source = "dgx1", 8, "NVIDIA DGX-1 datasheet (from memory)"
cluster.summary = "8x V100-SXM2-32GB per node, hybrid cube mesh, 4x EDR100 InfiniBand"
cluster.links.intra = { name = "NVLink 2, six links a GPU", bandwidth = 117e9, send_bandwidth = 39e9,
  source = "as dgx2; sends between neighbours over two of six links" }
cluster.links.inter = { name = "4x InfiniBand EDR100", bandwidth_per_gpu = 10.6e9, bandwidth_per_node = 42.5e9,
  source = "85 % of 4x 12.5 GB/s, the share of dgx_a100" }
return cluster

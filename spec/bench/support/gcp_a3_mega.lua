--- Google's a3-megagpu-8g: eight H100 and eight 200 Gbit/s cards. For literature.tsv.
local find = require "ett.base.find"
local cluster = find.load("clusters", "dgx_h100")

cluster.name, cluster.source = "gcp_a3_mega", "docs.cloud.google.com/compute/docs/gpus/gpu-network-bandwidth"
cluster.summary = "8x H100-SXM-80GB per node, NVSwitch, 8x 200 Gbit/s"
cluster.links.inter = { name = "8x 200 Gbit/s, GPUDirect-TCPXO", bandwidth_per_gpu = 21.2e9,
  bandwidth_per_node = 170e9, source = "85 % of 8x 25 GB/s, assumed" }
return cluster

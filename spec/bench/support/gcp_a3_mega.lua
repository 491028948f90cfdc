--- Google's a3-megagpu-8g: eight H100 and eight 200 Gbit/s cards. For literature.tsv.
local find = require "ett.base.find"
local cluster = find.load("clusters", "dgx_h100")

cluster.name, cluster.source = "gcp_a3_mega", "docs.cloud.google.com/compute/docs/gpus/gpu-network-bandwidth"
cluster.summary = "8x H100-SXM-80GB per node, NVSwitch, 8x 200 Gbit/s"
cluster.links.inter = { name = "8x 200 Gbit/s, GPUDirect-TCPXO", bandwidth_per_gpu = 23.6e9,
  bandwidth_per_node = 188.5e9,
  source = "all_gather of two nodes, 8 GiB: dstackai/dstack, examples/clusters/a3mega/README.md" }
return cluster

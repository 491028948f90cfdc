--- Google's a3-highgpu-8g: eight H100 and four 200 Gbit/s cards. For literature.tsv.
local find = require "ett.base.find"
local cluster = find.load("clusters", "dgx_h100")

cluster.name, cluster.source = "gcp_a3", "docs.cloud.google.com/compute/docs/gpus/gpu-network-bandwidth"
cluster.summary = "8x H100-SXM-80GB per node, NVSwitch, 4x 200 Gbit/s"
cluster.links.inter = { name = "4x 200 Gbit/s, GPUDirect-TCPX", bandwidth_per_gpu = 12.6e9, bandwidth_per_node = 50.3e9,
  source = "all_gather of two nodes, 8 GiB: dstackai/dstack, examples/clusters/a3high/README.md" }
return cluster

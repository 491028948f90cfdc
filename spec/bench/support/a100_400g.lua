--- Eight A100-SXM4-80GB per node and 400 Gbit/s of network, as IBM's cluster has. For literature.tsv.
local find = require "ett.base.find"
local cluster = find.load("clusters", "dgx_a100")

cluster.name, cluster.source = "a100_400g", "pytorch.org/blog/maximizing-training"
cluster.summary = "8x A100-SXM4-80GB per node, NVSwitch, 400 Gbit/s"
cluster.links.inter = { name = "400 Gbit/s", bandwidth_per_gpu = 10.6e9, bandwidth_per_node = 42.5e9,
  source = "85 % of 50 GB/s, assumed" }
return cluster

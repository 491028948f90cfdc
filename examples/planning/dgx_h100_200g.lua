--- DGX H100 with 200 Gbit/s cards in place of 400: half the bandwidth between nodes.
local cluster = require("ett.base.find").load("clusters", "dgx_h100") -- a table of its own: it may be changed

cluster.name, cluster.summary = "dgx_h100_200g", "8x H100-SXM-80GB per node, 8x HDR200 InfiniBand"
cluster.source = "dgx_h100, its cards at half their rate"
local inter = cluster.links.inter
inter.name, inter.source = "8x InfiniBand HDR200", cluster.source
inter.bandwidth_per_gpu, inter.bandwidth_per_node = inter.bandwidth_per_gpu / 2, inter.bandwidth_per_node / 2

return cluster

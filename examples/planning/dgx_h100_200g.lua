--- DGX H100 with 200 Gbit/s cards in place of 400: half the bandwidth between nodes.
local base = require("ett.base.find").load("clusters", "dgx_h100")

local cluster = {}
for name, value in pairs(base) do cluster[name] = value end
cluster.name, cluster.summary = "dgx_h100_200g", "8x H100-SXM-80GB per node, 8x HDR200 InfiniBand"
cluster.source = "dgx_h100, its cards at half their rate"
local inter = {}
for name, value in pairs(base.links.inter) do inter[name] = value end
inter.name, inter.source = "8x InfiniBand HDR200", cluster.source
inter.bandwidth_per_gpu, inter.bandwidth_per_node = inter.bandwidth_per_gpu / 2, inter.bandwidth_per_node / 2
cluster.links = { intra = base.links.intra, inter = inter }

return cluster

--- A node of eight MI325X, with the links of MI300X's node. For literature.tsv.
local find = require "ett.base.find"
local cluster = find.load("clusters", "mi300x_node")

cluster.name, cluster.device, cluster.price_per_gpu_hour = "mi325x_node", "mi325x", nil
cluster.price_source = "unset: no price was looked up"
cluster.summary = "8x MI325X per node, links of MI300X's node"
return cluster

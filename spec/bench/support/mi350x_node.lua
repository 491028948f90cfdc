--- A node of eight MI350X, with the links of MI355X's node. For literature.tsv.
local find = require "ett.base.find"
local cluster = find.load("clusters", "mi355x_node")

cluster.name, cluster.device = "mi350x_node", "mi350x"
cluster.summary = "8x MI350X per node, links of MI355X's node"
return cluster

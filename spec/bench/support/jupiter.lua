--- Nodes of JUPITER: four GH200 with four NDR200 InfiniBand cards. For literature.tsv.
local cluster = require("ett.base.find").load("clusters", "alps")

cluster.name, cluster.source = "jupiter", "apps.fz-juelich.de, JUPITER Booster: four GH200 and four NDR200 cards a node"
cluster.summary = "4x GH200-96GB per node, NVLink, 4x InfiniBand NDR200"
cluster.links.inter = { name = "4x InfiniBand NDR200", bandwidth_per_gpu = 24.1e9, bandwidth_per_node = 96.4e9,
  source = "4x 25 GB/s at 96 % of the line rate, the share of vista's samples" }
return cluster

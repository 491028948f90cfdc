--- Nodes of Perlmutter with the plugin of NCCL for Slingshot: four A100 of 80 GB, four cards. For literature.tsv.
local find = require "ett.base.find"
local cluster = find.load("clusters", "perlmutter")

cluster.name, cluster.profile = "perlmutter_80gb", nil
cluster.summary = "4x A100-80GB per node, NVLink, 4x Slingshot-11"
cluster.source = "NERSC, Perlmutter architecture; its module of PyTorch has the plugin of NCCL for Slingshot"
cluster.links.inter = { name = "4x Slingshot-11 of 200 Gbit/s", bandwidth_per_gpu = 21.2e9, bandwidth_per_node = 85e9,
  source = "85 % of 4x 25 GB/s, as alps; assumed" }
return cluster

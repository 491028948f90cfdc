--- NVIDIA's nodes of MLPerf Training 4.0: four L40S and two 400 Gbit/s cards. For literature.tsv.
local find = require "ett.base.find"
local cluster = find.load("clusters", "l40s_node")

cluster.name, cluster.gpus_per_node = "l40s_4", 4
cluster.source = "mlcommons/training_results_v4.0, NVIDIA/results/l40s_n96_ngc24.04_nemo: system description"
cluster.summary = "4x L40S per node, PCIe 4, 2x 400 Gbit/s"
cluster.links.intra.curves[8] = nil
cluster.links.inter = { name = "2x 400 Gbit/s", bandwidth_per_gpu = 21e9, bandwidth_per_node = 84e9,
  source = "a GPU's PCIe 4, as l40s_node; assumed" }
return cluster

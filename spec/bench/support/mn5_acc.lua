--- MareNostrum 5, accelerated partition: four H100 with 64 GB of HBM2e, four NDR200 cards. For literature.tsv.
local find, devices = require "ett.base.find", require "ett.profile.device"
local cluster, device = find.load("clusters", "dgx_h100"), devices.get "h100_sxm"

-- The memory's bandwidth is that of four stacks of HBM2e, the half of eight at 4 TB/s; assumed.
device.name, device.memory_bytes, device.memory_bandwidth = "H100-SXM-64GB", 68e9, 2.0e12
cluster.name, cluster.gpus_per_node, cluster.device = "mn5_acc", 4, device
cluster.source = "www.bsc.es, MareNostrum 5: accelerated partition"
cluster.summary = "4x H100-SXM-64GB per node, NVLink, 4x NDR200 InfiniBand"
cluster.links.intra.curves[8] = nil
cluster.links.inter = { name = "4x InfiniBand NDR200", bandwidth_per_gpu = 21.2e9, bandwidth_per_node = 85e9,
  source = "85 % of 4x 25 GB/s, assumed" }
return cluster

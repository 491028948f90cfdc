--- Grand Teton of torchtitan's runs: eight H100 with 96 GB of HBM2e at 500 W, 400 Gbit/s a GPU. For literature.tsv.
local find, devices = require "ett.base.find", require "ett.profile.device"
local cluster, device = find.load("clusters", "dgx_h100"), devices.get "h100_sxm"
local page = "pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md"

-- The memory is that of 96 GB as CUDA reports it: torchtitan prints 95 GiB as the capacity.
device.name, device.memory_bytes, device.memory_bandwidth = "H100-SXM-96GB", 102e9, 2.4e12
cluster.name, cluster.device, cluster.source = "grand_teton_96gb", device, page
cluster.summary = "8x H100-SXM-96GB (HBM2e) at 500 W per node, NVSwitch, 400 Gbit/s per GPU"
cluster.power = { node_watts = 2800, device_watts = 500, source = page .. "; the node as dgx_h100" }
return cluster

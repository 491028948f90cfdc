--- Rates of a cluster file's device and links, for the ledger's time models.
local cluster_module = require "ett.profile.cluster"

local links = {}

--- Rates of a cluster: { name, flops = FLOP/s of 8-bit matmuls, memory = bytes/s, capacity = bytes, node_chips,
--- node_network, network = bytes/s per chip (sum of both directions), latency_seconds = per hop }. A cluster without a
--- link between nodes has network 0.
function links.chip(source)
  local cluster = cluster_module.get(source)
  require("ett.profile.network.parts").refuse(cluster, "the ledger")
  local device, intra, inter = cluster.device, cluster.links.intra, cluster.links.inter
  local half = device.peak_flops.bf16 or device.peak_flops.fp16
  if not half then
    require("ett.base.error").raise("model", "cluster '%s': device: peak_flops has neither bf16 nor fp16", cluster.name)
  end
  return {
    name = device.name, flops = 2 * half, memory = device.memory_bandwidth, capacity = device.memory_bytes,
    node_chips = cluster.gpus_per_node,
    node_network = intra and 2 * intra.bandwidth or inter and 2 * inter.bandwidth_per_gpu,
    network = inter and 2 * inter.bandwidth_per_gpu or intra and 2 * intra.bandwidth,
    latency_seconds = (inter or intra).latency or cluster_module.default_latency[inter and "inter" or "intra"],
    intra = intra and { bytes_per_second = intra.bandwidth,
      latency_seconds = intra.latency or cluster_module.default_latency.intra, name = intra.name or "intra" },
    inter = inter and { bytes_per_second = inter.bandwidth_per_gpu,
      latency_seconds = inter.latency or cluster_module.default_latency.inter, name = inter.name or "inter" },
  }
end

return links

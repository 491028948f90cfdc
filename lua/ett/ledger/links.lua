--- Rates of a cluster file's device and links, for the ledger's time models.
local cluster_module = require "ett.profile.cluster"
local error_module = require "ett.base.error"

local links = {}

--- Rates of a cluster: { name, cluster, flops = FLOP/s of 8-bit matmuls, memory = bytes/s, capacity = bytes,
--- node_chips, node_network, network = bytes/s per chip (sum of both directions), node_latency_seconds,
--- latency_seconds = of a hop, intra, inter = { name, bytes_per_second (one direction), latency_seconds },
--- dollars_per_hour, price_source }. The chips of a node share its network.
--- If the cluster has links at one level only, both levels have their rates.
function links.chip(source)
  local cluster = cluster_module.get(source)
  require("ett.profile.network.parts").refuse(cluster, "the ledger")
  local device, intra, inter = cluster.device, cluster.links.intra, cluster.links.inter
  local half = device.peak_flops.bf16 or device.peak_flops.fp16
  if not half then
    error_module.raise("model", "cluster '%s': device: peak_flops has neither bf16 nor fp16", cluster.name)
  end
  if not (intra or inter) then
    error_module.raise("model", "cluster '%s': the ledger needs 'links' with 'intra' or 'inter'; it has none",
      cluster.name)
  end
  local default = cluster_module.default_latency
  local own = intra and { bytes_per_second = intra.bandwidth, latency_seconds = intra.latency or default.intra,
    name = intra.name or "intra" }
  local network = inter and { latency_seconds = inter.latency or default.inter, name = inter.name or "inter",
    bytes_per_second = math.min(inter.bandwidth_per_gpu, inter.bandwidth_per_node / cluster.gpus_per_node) }
  return {
    name = device.name, cluster = cluster.name,
    flops = 2 * half, memory = device.memory_bandwidth, capacity = device.memory_bytes,
    node_chips = cluster.gpus_per_node,
    node_network = 2 * (own or network).bytes_per_second, network = 2 * (network or own).bytes_per_second,
    node_latency_seconds = (own or network).latency_seconds, latency_seconds = (network or own).latency_seconds,
    intra = own, inter = network,
    dollars_per_hour = cluster.price_per_gpu_hour, price_source = cluster.price_source,
  }
end

return links

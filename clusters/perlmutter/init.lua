--- NERSC Perlmutter GPU nodes: four A100-SXM4-80GB, NVLink all to all, Slingshot-11 outside.
--
-- The network has the bandwidths of NCCL in the sampled runs: about 1.2 GB/s per rank and 4.2 GB/s per node. The
-- hardware has 25 and 100 GB/s. The runs used TCP sockets (NCCL_SOCKET_IFNAME=hsn), not the cards' RDMA. Sampled
-- collectives use the profile; all others use these links.
local samples = "samples of estimate-train-time (Littlesnakess/GPUModeling25, arXiv 2509.22832)"

return {
  name = "perlmutter",
  summary = "4x A100-SXM4-80GB per node, NCCL over TCP on Slingshot-11, as sampled",
  source = samples,
  gpus_per_node = 4,
  price_source = "unset: time is granted, not sold",
  device = "a100_sxm",
  host = { name = "PCIe 4 x16", bandwidth = 25e9,
    memory_bandwidth = 51.2e9, memory_bytes = 64e9,
    source = "80 % of 31.5 GB/s, assumed; memory: a quarter of an EPYC 7763, 8 channels of DDR4-3200, 256 GB (NERSC)" },
  links = {
    intra = { name = "NVLink 3, 4 links per pair", bandwidth = 214e9, send_bandwidth = 91.5e9,
      source = "all_reduce 1x4 and p2p 1x2 at 268 MB, " .. samples,
      -- bytes, bus bandwidth: all_reduce_1_2 and _1_4
      curves = {
        [2] = { 41943040, 61.74e9, 79691776, 63.61e9, 192937984, 65.12e9, 268435456, 68.75e9, 623635456, 72.41e9,
          1334035456, 74.47e9, 2399635456, 74.69e9 },
        [4] = { 41943040, 167.33e9, 79691776, 189.14e9, 117440512, 197.0e9, 192937984, 204.21e9,
          268435456, 213.9e9 },
      } },
    inter = { name = "Slingshot-11 through TCP sockets", bandwidth_per_gpu = 1.19e9, bandwidth_per_node = 4.2e9,
      send_bandwidth = 3.2e9,
      -- Assumed: four concurrent sends are as fast as one. With 4.2 GB/s together, two measured steps would be 5.7 and
      -- 13.7 % too long; with this value their errors are 0.1 and 6.5 %.
      send_bandwidth_per_node = 12.8e9, source = "all_reduce 2x1 to 2x4, sends 2x1, " .. samples },
  },
  profile = "profile",
}

--- DGX H200: eight H200-SXM-141GB, otherwise a DGX H100.
local datasheet = "NVIDIA datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md"
local network = "stas00/ml-engineering@744d01e network/README.md"

return {
  name = "dgx_h200",
  summary = "8x H200-SXM-141GB per node, NVSwitch, 8x NDR400 InfiniBand",
  source = datasheet,
  gpus_per_node = 8,
  device = "h200_sxm",
  host = { name = "PCIe 5 x16", bandwidth = 50e9,
    memory_bandwidth = 76.8e9, memory_bytes = 250e9,
    source = "80 % of 63 GB/s, assumed; "
      .. "memory: an eighth of two Xeon 8480C, 16 channels of DDR5-4800, 2 TB (datasheet)" },
  price_per_gpu_hour = 7.912,
  price_source = "AWS p5en.48xlarge, on demand, us-east-1, 2026: 63.296 $/h",
  power = { node_watts = 2800, source = "that of dgx_h100" },
  links = {
    intra = { name = "NVLink 4 and NVSwitch", bandwidth = 482e9, send_bandwidth = 396.4e9, ring_bandwidth = 370e9,
      source = "all_reduce and sends on 8 H200: " .. network .. "; curve of 8 H100: NVIDIA/dgxc-benchmarking "
        .. "v25.10.02; rings: NVIDIA/nccl-tests issue 212",
      curves = "dgx_h100" },
    inter = { name = "8x InfiniBand NDR400", hierarchical = true,
      bandwidth_per_gpu = 48.2e9, bandwidth_per_node = 385.6e9,
      source = "8x 50 GB/s, " .. network .. ", at 96 % of the line rate, as vista's samples of one NDR card; "
        .. "in-node reduction: two nodes of H100, 338 GB/s over 200 GB/s of cards (all_reduce on GCP a3mega)" },
  },
}

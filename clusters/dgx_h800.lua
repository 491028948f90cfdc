--- Eight H800: the H100 with NVLink of 400 instead of 900 GB/s.
return {
  name = "dgx_h800",
  summary = "8x H800-SXM-80GB per node, NVSwitch, 8x NDR400 InfiniBand",
  source = "DeepSeek-V3 (arXiv 2412.19437), section 3.1",
  gpus_per_node = 8,
  device = "h800",
  host = { name = "PCIe 5 x16", bandwidth = 50e9,
    memory_bandwidth = 76.8e9, memory_bytes = 250e9,
    source = "80 % of 63 GB/s, assumed; memory as dgx_h100, assumed" },
  price_per_gpu_hour = 2.00,
  price_source = "assumed rental price of DeepSeek-V3 (arXiv 2412.19437, December 2024), table 1",
  links = {
    intra = { name = "NVLink 4 of 400 GB/s", bandwidth = 160e9, send_bandwidth = 160e9,
      source = "DeepSeek-V3 (arXiv 2412.19437), section 3.2.2: 160 GB/s, 3.2 times InfiniBand's 50" },
    inter = { name = "8x InfiniBand NDR400", bandwidth_per_gpu = 48.2e9, bandwidth_per_node = 385.6e9,
      source = "as dgx_h100" },
  },
}

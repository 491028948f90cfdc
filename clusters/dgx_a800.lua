--- Eight A800-SXM4-80GB: the A100 with NVLink of 400 instead of 600 GB/s.
return {
  name = "dgx_a800",
  summary = "8x A800-SXM4-80GB per node, NVSwitch, 8x HDR200 InfiniBand",
  source = "NVIDIA A800 datasheet: an A100 with NVLink of 400 GB/s (from memory)",
  gpus_per_node = 8,
  device = "a100_sxm",
  host = { name = "PCIe 4 x16", bandwidth = 25e9,
    memory_bandwidth = 51.2e9, memory_bytes = 250e9,
    source = "80 % of 31.5 GB/s, assumed; memory as dgx_a100" },
  price_source = "unset: no public on-demand price found, 2026",
  links = {
    intra = { name = "NVLink 3 of 400 GB/s", bandwidth = 156.6e9, send_bandwidth = 130e9,
      source = "two thirds of dgx_a100: 200 of 300 GB/s one way" },
    inter = { name = "8x InfiniBand HDR200", bandwidth_per_gpu = 21.2e9, bandwidth_per_node = 170e9,
      source = "as dgx_a100" },
  },
}

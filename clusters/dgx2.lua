--- DGX-2: sixteen V100-SXM3-32GB on NVSwitch, eight EDR InfiniBand cards.
return {
  name = "dgx2",
  summary = "16x V100-SXM3-32GB per node, NVSwitch, 8x EDR100 InfiniBand",
  source = "NVIDIA DGX-2 datasheet (from memory)",
  gpus_per_node = 16,
  device = "v100",
  host = { name = "PCIe 3 x16", bandwidth = 12.5e9,
    memory_bandwidth = 16e9, memory_bytes = 94e9,
    source = "80 % of 15.75 GB/s, assumed; "
      .. "memory: two Xeon 8168, 12 channels of DDR4-2666, 1.5 TB (datasheet), for 16 GPUs" },
  price_source = "unset: no public on-demand price found, 2026",
  links = {
    intra = { name = "NVLink 2 and NVSwitch", bandwidth = 117e9, send_bandwidth = 97e9,
      source = "half of dgx_a100: 150 of 300 GB/s one way" },
    inter = { name = "8x InfiniBand EDR100", bandwidth_per_gpu = 10.6e9, bandwidth_per_node = 85e9,
      source = "85 % of 8x 12.5 GB/s, the share of dgx_a100" },
  },
}

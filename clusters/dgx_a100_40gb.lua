--- DGX A100 of 2020: eight A100-SXM4-40GB on NVSwitch, eight HDR InfiniBand cards.
return {
  name = "dgx_a100_40gb",
  summary = "8x A100-SXM4-40GB per node, NVSwitch, 8x HDR200 InfiniBand",
  source = "NVIDIA DGX A100 datasheet (from memory)",
  gpus_per_node = 8,
  device = "a100_sxm_40gb",
  host = { name = "PCIe 4 x16", bandwidth = 25e9,
    memory_bandwidth = 51.2e9, memory_bytes = 125e9,
    source = "80 % of 31.5 GB/s, assumed; "
      .. "memory: an eighth of two EPYC 7742, 16 channels of DDR4-3200, 1 TB (datasheet)" },
  price_source = "unset: no list price was looked up",
  links = {
    intra = { name = "NVLink 3 and NVSwitch", bandwidth = 234.89e9, send_bandwidth = 195e9, curves = "dgx_a100",
      source = "as dgx_a100" },
    inter = { name = "8x InfiniBand HDR200", bandwidth_per_gpu = 21.2e9, bandwidth_per_node = 170e9,
      source = "as dgx_a100" },
  },
}

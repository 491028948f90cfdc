--- DGX B300: eight B300 on NVSwitch, eight XDR cards.
return {
  name = "dgx_b300",
  summary = "8x B300 per node, NVSwitch, 8x 800 Gbit/s InfiniBand",
  source = "stas00/ml-engineering@744d01e network/README.md",
  gpus_per_node = 8,
  device = "b300_sxm",
  host = { name = "PCIe 5 x16", bandwidth = 50e9, source = "80 % of 63 GB/s, assumed" },
  price_per_gpu_hour = 17.80,
  price_source = "AWS p6-b300.48xlarge, on demand, us-east-1, 2026: 142.42 $/h",
  links = {
    intra = { name = "NVLink 5 and NVSwitch", bandwidth = 845e9, ring_bandwidth = 760e9,
      source = "all_reduce on 8 B200: stas00/ml-engineering@744d01e network/README.md"
        .. "; rings: NVIDIA/nccl issue 2035",
      curves = "dgx_b200" },
    inter = { name = "8x InfiniBand XDR800", hierarchical = true,
      bandwidth_per_gpu = 96e9, bandwidth_per_node = 768e9,
      source = "96 % of 8x 100 GB/s (DGX B300 XDR), the share of NDR; "
        .. "stas00/ml-engineering@744d01e network/README.md" },
  },
}

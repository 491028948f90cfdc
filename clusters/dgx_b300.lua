--- DGX B300: eight B300 on NVSwitch, eight XDR cards.
return {
  name = "dgx_b300",
  summary = "8x B300 a node, NVSwitch, 8x 800 Gbit/s InfiniBand",
  source = "stas00/ml-engineering@744d01e network/README.md",
  gpus_per_node = 8,
  device = "b300_sxm",
  price_per_gpu_hour = 17.80,
  price_source = "AWS p6-b300.48xlarge, on demand, us-east-1, 2026: 142.42 $/h",
  links = {
    intra = { name = "NVLink 5 and NVSwitch", bandwidth = 845e9,
      source = "all_reduce on 8 B200: stas00/ml-engineering@744d01e network/README.md",
      curves = { [8] = {
        32768, 1.2e9, 65536, 2.17e9, 131072, 4.86e9, 262144, 9.54e9, 524288, 18.71e9, 1048576, 36.06e9,
        2097152, 63.09e9, 4194304, 76.48e9, 8388608, 126.49e9, 16777216, 254.96e9, 33554432, 325.97e9,
        67108864, 400.6e9, 134217728, 568.38e9, 268435456, 646.11e9, 536870912, 688.99e9, 1073741824, 723.34e9,
        2147483648, 734.97e9, 4294967296, 740.64e9, 8589934592, 839.07e9, 17179869184, 845.67e9 } } },
    inter = { name = "8x InfiniBand XDR800", hierarchical = true,
      bandwidth_per_gpu = 96e9, bandwidth_per_node = 768e9,
      source = "8x 100 GB/s (DGX B300 XDR), stas00/ml-engineering@744d01e network/README.md, at 96 % as NDR" },
  },
}

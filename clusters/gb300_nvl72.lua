--- GB300 NVL72: 72 GPUs in one NVLink domain, one 800 Gbit/s card each.
return {
  name = "gb300_nvl72",
  summary = "72x GB300 in one NVLink domain, 800 Gbit/s InfiniBand a GPU",
  source = "stas00/ml-engineering@744d01e network/README.md",
  gpus_per_node = 72,
  device = "gb300",
  links = {
    intra = { name = "NVLink 5 and NVSwitch", bandwidth = 845e9,
      source = "all_reduce on 8 B200: stas00/ml-engineering@744d01e network/README.md",
      curves = { [8] = {
        32768, 1.2e9, 65536, 2.17e9, 131072, 4.86e9, 262144, 9.54e9, 524288, 18.71e9, 1048576, 36.06e9,
        2097152, 63.09e9, 4194304, 76.48e9, 8388608, 126.49e9, 16777216, 254.96e9, 33554432, 325.97e9,
        67108864, 400.6e9, 134217728, 568.38e9, 268435456, 646.11e9, 536870912, 688.99e9, 1073741824, 723.34e9,
        2147483648, 734.97e9, 4294967296, 740.64e9, 8589934592, 839.07e9, 17179869184, 845.67e9 } } },
    inter = { name = "InfiniBand XDR800, one card a GPU", hierarchical = true,
      bandwidth_per_gpu = 96e9, bandwidth_per_node = 6912e9,
      source = "100 GB/s a GPU at 96 % as NDR, stas00/ml-engineering@744d01e network/README.md" },
  },
}

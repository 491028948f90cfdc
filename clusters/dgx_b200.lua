--- DGX B200: eight B200-SXM-180GB on NVSwitch, eight NDR cards.
local datasheet = "NVIDIA datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md"
local network = "stas00/ml-engineering@744d01e network/README.md"

return {
  name = "dgx_b200",
  summary = "8x B200-SXM-180GB per node, NVSwitch, 8x NDR400 InfiniBand",
  source = datasheet,
  gpus_per_node = 8,
  device = "b200_sxm",
  host = { name = "PCIe 5 x16", bandwidth = 50e9,
    memory_bandwidth = 89.6e9, memory_bytes = 250e9,
    source = "80 % of 63 GB/s, assumed; "
      .. "memory: an eighth of two Xeon 8570, 16 channels of DDR5-5600, 2 TB (datasheet)" },
  price_per_gpu_hour = 14.24,
  price_source = "AWS p6-b200.48xlarge, on demand, us-east-1, 2026: 113.93 $/h",
  links = {
    intra = { name = "NVLink 5 and NVSwitch", bandwidth = 845e9, ring_bandwidth = 760e9,
      source = "all_reduce on 8 B200, 32 KiB to 16 GiB: " .. network .. "; rings: NVIDIA/nccl issue 2035",
      curves = { [8] = {
        32768, 1.2e9, 65536, 2.17e9, 131072, 4.86e9, 262144, 9.54e9, 524288, 18.71e9, 1048576, 36.06e9,
        2097152, 63.09e9, 4194304, 76.48e9, 8388608, 126.49e9, 16777216, 254.96e9, 33554432, 325.97e9,
        67108864, 400.6e9, 134217728, 568.38e9, 268435456, 646.11e9, 536870912, 688.99e9, 1073741824, 723.34e9,
        2147483648, 734.97e9, 4294967296, 740.64e9, 8589934592, 839.07e9, 17179869184, 845.67e9 } } },
    inter = { name = "8x InfiniBand NDR400", hierarchical = true,
      bandwidth_per_gpu = 48.2e9, bandwidth_per_node = 385.6e9,
      source = "8x 50 GB/s, " .. network .. ", at 96 % of the line rate, as vista's samples of one NDR card; "
        .. "in-node reduction: two nodes of H100, 338 GB/s over 200 GB/s of cards (all_reduce on GCP a3mega)" },
  },
}

--- A node of eight L40S on PCIe 4 with two 200 Gbit/s cards.
return {
  name = "l40s_node",
  summary = "8x L40S per node, PCIe 4, 2x 200 Gbit/s",
  source = "assumed",
  gpus_per_node = 8,
  device = "l40s",
  host = { name = "PCIe 4 x16", bandwidth = 25e9, source = "80 % of 31.5 GB/s, assumed" },
  price_per_gpu_hour = 3.50,
  price_source = "Oracle VM.GPU.L40S, list, 14 April 2026: 3.50 $ per GPU and hour",
  links = {
    intra = { name = "PCIe 4 x16", bandwidth = 20e9,
      source = "65 % of 31 GB/s one way, as measured with two GPUs; curves: all_reduce of the device's tables",
      curves = { [2] = { 65536, 5.2e9, 1048576, 14e9, 8388608, 19.6e9, 536870912, 20.1e9 },
        [4] = { 65536, 2.9e9, 524288, 4.8e9, 8388608, 5.1e9, 536870912, 5.2e9 },
        [8] = { 65536, 0.70e9, 1048576, 2.1e9, 8388608, 1.5e9, 536870912, 1.45e9 } } },
    inter = { name = "2x 200 Gbit/s",
      bandwidth_per_gpu = 21e9, bandwidth_per_node = 42e9,
      source = "assumed: 85 % of 2x 25 GB/s" },
  },
}

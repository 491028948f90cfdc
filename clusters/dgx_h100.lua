--- DGX H100: eight H100-SXM-80GB on NVSwitch with in-switch reduction, eight NDR cards.
local datasheet = "NVIDIA datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md"
local network = "stas00/ml-engineering@744d01e network/README.md"

return {
  name = "dgx_h100",
  summary = "8x H100-SXM-80GB per node, NVSwitch, 8x NDR400 InfiniBand",
  source = datasheet,
  gpus_per_node = 8,
  device = "h100_sxm",
  host = { name = "PCIe 5 x16", bandwidth = 50e9,
    memory_bandwidth = 76.8e9, memory_bytes = 250e9,
    source = "80 % of 63 GB/s, assumed; "
      .. "memory: an eighth of two Xeon 8480C, 16 channels of DDR5-4800, 2 TB (datasheet)" },
  price_per_gpu_hour = 6.88,
  price_source = "AWS p5.48xlarge, on demand, us-east, price list of 28 July 2026: 55.04 $/h",
  failures = { per_device_day = 4.74e-4, restart_seconds = 600,
    source = "419 unexpected interruptions in 54 days of 16,384 H100, Llama 3 (arXiv 2407.21783, 3.3.4); restarts "
      .. "assumed" },
  power = { node_watts = 2800, source = "8.4 kW at most in training, eight devices of 700 W (arXiv 2412.08602)" },
  links = {
    intra = { name = "NVLink 4 and NVSwitch", bandwidth = 480e9, send_bandwidth = 396.4e9, ring_bandwidth = 370e9,
      source = "all_reduce on 8 H100: NVIDIA/dgxc-benchmarking v25.10.02 nccl/README.md; sends: " .. network
        .. "; rings: NVIDIA/nccl-tests issue 212",
      curves = { [8] = { 32768, 2.97e9, 131072, 11.53e9, 524288, 44.41e9, 1048576, 67.04e9, 2097152, 86.94e9,
        4194304, 135.44e9, 8388608, 176.77e9, 16777216, 237.21e9, 33554432, 294.69e9, 67108864, 361.67e9,
        134217728, 400.53e9, 268435456, 422.25e9, 536870912, 436.79e9, 1073741824, 466.33e9,
        8589934592, 480.16e9 } } },
    inter = { name = "8x InfiniBand NDR400", hierarchical = true,
      bandwidth_per_gpu = 48.2e9, bandwidth_per_node = 385.6e9,
      source = "8x 50 GB/s, " .. network .. ", at 96 % of the line rate, as vista's samples of one NDR card; "
        .. "in-node reduction: two nodes of H100, 338 GB/s over 200 GB/s of cards (all_reduce on GCP a3mega)" },
  },
}

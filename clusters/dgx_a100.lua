--- DGX A100: eight A100-SXM4-80GB on NVSwitch, eight HDR InfiniBand cards.
local datasheet = "NVIDIA A100 datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md"

return {
  name = "dgx_a100",
  summary = "8x A100-SXM4-80GB per node, NVSwitch, 8x HDR200 InfiniBand",
  source = datasheet,
  gpus_per_node = 8,
  device = "a100_sxm",
  host = { name = "PCIe 4 x16", bandwidth = 25e9,
    memory_bandwidth = 51.2e9, memory_bytes = 250e9,
    source = "80 % of 31.5 GB/s, assumed; "
      .. "memory: an eighth of two EPYC 7742, 16 channels of DDR4-3200, 2 TB (datasheet)" },
  price_per_gpu_hour = 4.00,
  price_source = "Oracle BM.GPU.A100-v2.8, list, 14 April 2026: 32 $/h",
  links = {
    intra = { name = "NVLink 3 and NVSwitch", bandwidth = 234.89e9, send_bandwidth = 195e9,
      source = "8 GPUs, 16 GiB: stas00/ml-engineering@744d01e network/README.md; sends: li-plus/playground "
        .. "cuda/nccl.md; curves: VIA-Research/vTrain@f8dda84 trace/a100/AR_GPU{2,4,8}_1M_1024M_LUT",
      curves = {
        [2] = { 1048576, 23.25e9, 2097152, 41.01e9, 4194304, 69.61e9, 8388608, 96.03e9, 16777216, 129.65e9,
          33554432, 146.52e9, 67108864, 166.1e9, 134217728, 175.28e9, 268435456, 184.57e9, 536870912, 189.48e9,
          1073741824, 196.89e9 },
        [4] = { 1048576, 29.82e9, 2097152, 56.23e9, 4194304, 83.0e9, 8388608, 110.79e9, 16777216, 141.56e9,
          33554432, 178.69e9, 67108864, 186.2e9, 134217728, 201.19e9, 268435456, 208.88e9, 536870912, 216.45e9,
          1073741824, 221.37e9 },
        [8] = { 1048576, 19.91e9, 2097152, 39.47e9, 4194304, 78.06e9, 8388608, 113.07e9, 16777216, 127.08e9,
          33554432, 165.1e9, 67108864, 202.61e9, 134217728, 201.44e9, 268435456, 217.68e9, 536870912, 224.36e9,
          1073741824, 229.25e9 },
      } },
    -- 0.85 of the line rate: 84.8 GB/s mean (96 peak) over 4x HDR200 per node, NVIDIA/nccl-tests issue 119.
    inter = { name = "8x InfiniBand HDR200", bandwidth_per_gpu = 21.2e9, bandwidth_per_node = 170e9,
      source = "85 % of 8x 25 GB/s (Narayanan et al. 2021), as NVIDIA/nccl-tests issue 119 measured on HDR200" },
  },
}

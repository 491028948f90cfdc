--- TACC Vista: one GH200 (96 GB HBM3) per node, InfiniBand NDR.
local samples = "samples of estimate-train-time (Littlesnakess/GPUModeling25, arXiv 2509.22832)"

return {
  name = "vista",
  summary = "1x GH200-96GB per node, InfiniBand NDR 400 Gb/s, as sampled",
  source = samples,
  gpus_per_node = 1,
  price_source = "unset: time is granted, not sold",
  device = "gh200",
  host = { name = "NVLink-C2C", bandwidth = 360e9, memory_bandwidth = 512e9, memory_bytes = 120e9,
    source = "NVIDIA GH200 datasheet: 900 GB/s both ways; 80 % of the half is assumed; 120 GB of LPDDR5X, 512 GB/s" },
  links = {
    inter = { name = "InfiniBand NDR", bandwidth_per_gpu = 48.2e9, bandwidth_per_node = 48.2e9, latency = 14e-6,
      source = "all_reduce 8x1 at 0.3 to 2 GB, " .. samples },
  },
  profile = { folder = "profile", borrow = "perlmutter" }, -- layer norms and masked softmax were not sampled here
}

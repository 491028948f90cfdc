--- TACC Vista: one GH200 (96 GB HBM3) a node, InfiniBand NDR.
local samples = "samples of estimate-train-time (Littlesnakess/GPUModeling25, arXiv 2509.22832)"
local datasheet = "NVIDIA GH200 datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md"

return {
  name = "vista",
  summary = "1x GH200-96GB a node, InfiniBand NDR 400 Gb/s, as sampled",
  source = samples,
  gpus_per_node = 1,
  -- 132 SMs: NVIDIA H100 architecture whitepaper, whose chip it is.
  device = {
    name = "NVIDIAGH200120GB", aliases = { "GH200-96GB", "gh200" }, source = datasheet,
    peak_flops = { fp32 = 67e12, tf32 = 494.5e12, fp16 = 989e12, bf16 = 989e12, fp8 = 1979e12, int8 = 1979e12 },
    measured_flops = { fp16 = 828.6e12, bf16 = 828.6e12, fp8 = 1535e12 },
    measured_source = "largest sustained matmul, stas00/ml-engineering@744d01e (MAMF, torch 2.6, 900 W version)",
    memory_bytes = 96e9, memory_bandwidth = 4.0e12, multiprocessors = 132,
  },
  links = {
    inter = { name = "InfiniBand NDR", bandwidth_per_gpu = 48.2e9, bandwidth_per_node = 48.2e9, latency = 14e-6,
      source = "all_reduce 8x1 at 0.3 to 2 GB, " .. samples },
  },
  profile = { folder = "profile", borrow = "perlmutter" }, -- layer norms and masked softmax were not sampled here
}

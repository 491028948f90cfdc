--- NVIDIA GB300, one GPU of a superchip, 279 GB.
return {
  name = "GB300",
  summary = "NVIDIA GB300, one GPU of a superchip, 279 GB",
  aliases = { "NVIDIA GB300" },
  source = "ai-dynamo/aiconfigurator@095f58a systems/*.yaml (datasheets)",
  peak_flops = { bf16 = 2500e12, fp16 = 2500e12, fp32 = 80e12, fp8 = 5000e12, nvfp4 = 15000e12, tf32 = 1250e12 },
  -- Memory as CUDA reports it: PyTorch prints "total capacity of 276.50 GiB".
  memory_bytes = 296.9e9, memory_bandwidth = 8e12, multiprocessors = 152, l2_bytes = 126 * 2^20,
  power_watts = 1400,
  generation = "blackwell", any_fp8_layout = true, exponentials = 32, host = "grace",
  neighbours = { "b200_sxm", "b300_sxm", "h200_sxm" },
}

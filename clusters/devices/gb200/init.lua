--- NVIDIA GB200, one GPU of a superchip, 186 GB.
return {
  name = "GB200",
  summary = "NVIDIA GB200, one GPU of a superchip, 186 GB",
  aliases = { "GB200-186GB", "NVIDIA GB200" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 2500e12, fp16 = 2500e12, fp32 = 80e12, fp8 = 5000e12, nvfp4 = 10000e12, tf32 = 1250e12 },
  -- Memory as CUDA reports it: PyTorch prints "total capacity of 184.31 GiB".
  memory_bytes = 197.9e9, memory_bandwidth = 8e12, multiprocessors = 152, l2_bytes = 126 * 2^20,
  power_watts = 1200,
  generation = "blackwell", any_fp8_layout = true, host = "grace",
  neighbours = { "gb300", "b200_sxm", "b300_sxm" },
}

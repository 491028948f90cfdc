--- NVIDIA V100, SXM2, 32 GB.
return {
  name = "V100-SXM2-32GB",
  summary = "NVIDIA V100, SXM2, 32 GB",
  aliases = { "V100" },
  source = "assumed: from memory of the vendor's datasheet",
  peak_flops = { fp16 = 125e12, fp32 = 15.7e12 },
  -- Memory as the driver reports it: PyTorch prints "total capacity of 31.73 GiB".
  memory_bytes = 34.07e9, memory_bandwidth = 0.9e12, multiprocessors = 80, l2_bytes = 6 * 2^20,
  power_watts = 300,
  generation = "volta",
  neighbours = { "a100_sxm", "h200_sxm" },
  assumed = true,
}

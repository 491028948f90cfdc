--- NVIDIA GeForce RTX 3090, PCIe, 24 GB.
return {
  name = "RTX 3090",
  summary = "NVIDIA GeForce RTX 3090, PCIe, 24 GB",
  aliases = { "GeForce RTX 3090", "NVIDIA GeForce RTX 3090" },
  source = "assumed: from memory of NVIDIA's GA102 architecture whitepaper",
  -- With fp32 accumulation, which training uses: half the rate of fp16 accumulation.
  peak_flops = { bf16 = 71e12, fp16 = 71e12, fp32 = 35.6e12, int8 = 284e12, tf32 = 35.6e12 },
  -- Memory as the driver reports it: PyTorch prints "23.70 GiB total capacity" (GaoLii/DSP#10).
  memory_bytes = 25.45e9, memory_bandwidth = 0.936e12, multiprocessors = 82, l2_bytes = 6 * 2^20,
  power_watts = 350,
  generation = "ampere",
  neighbours = { "a100_sxm", "h200_sxm" },
  assumed = true,
}

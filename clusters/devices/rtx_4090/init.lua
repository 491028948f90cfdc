--- NVIDIA GeForce RTX 4090, PCIe, 24 GB.
return {
  name = "RTX 4090",
  summary = "NVIDIA GeForce RTX 4090, PCIe, 24 GB",
  aliases = { "GeForce RTX 4090", "NVIDIA GeForce RTX 4090" },
  source = "assumed: from memory of NVIDIA's Ada GPU architecture whitepaper",
  -- With fp32 accumulation, which training uses: half the rate of fp16 accumulation.
  peak_flops = { bf16 = 165.2e12, fp16 = 165.2e12, fp32 = 82.6e12, fp8 = 330.3e12, int8 = 660.6e12, tf32 = 82.6e12 },
  -- Memory as the driver reports it: PyTorch prints "total capacity of 23.64 GiB" (ali-vilab/VGen#104).
  memory_bytes = 25.38e9, memory_bandwidth = 1.008e12, multiprocessors = 128, l2_bytes = 72 * 2^20,
  power_watts = 450,
  product_joules = 1.475e-12, -- of a bf16 FLOP: as L40S, which has the same chip
  generation = "ada",
  neighbours = { "l40s", "h200_sxm" },
  assumed = true,
}

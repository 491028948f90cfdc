--- NVIDIA H20, SXM, 96 GB.
return {
  name = "H20-96GB",
  summary = "NVIDIA H20, SXM, 96 GB",
  aliases = { "H20" },
  source = "assumed: from memory of the vendor's datasheet",
  peak_flops = { bf16 = 148e12, fp16 = 148e12, fp32 = 44e12, fp8 = 296e12, int8 = 296e12, tf32 = 74e12 },
  memory_bytes = 96e9, memory_bandwidth = 4e12, multiprocessors = 78, l2_bytes = 60 * 2^20,
  power_watts = 400,
  generation = "hopper",
  neighbours = { "h200_sxm" },
  assumed = true,
}

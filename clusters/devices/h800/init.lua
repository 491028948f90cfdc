--- NVIDIA H800, SXM, 80 GB.
return {
  name = "H800-SXM-80GB",
  summary = "NVIDIA H800, SXM, 80 GB",
  aliases = { "H800" },
  source = "assumed: from memory of the vendor's datasheet",
  peak_flops = { bf16 = 989.5e12, fp16 = 989.5e12, fp32 = 67e12, fp8 = 1979e12, int8 = 1979e12, tf32 = 494.5e12 },
  -- Memory of H100: "identical" (ai-dynamo/aiconfigurator#968).
  memory_bytes = 84.98e9, memory_bandwidth = 3.35e12, multiprocessors = 132, l2_bytes = 50 * 2^20,
  power_watts = 700,
  generation = "hopper",
  neighbours = { "h100_sxm", "h200_sxm" },
  assumed = true,
}

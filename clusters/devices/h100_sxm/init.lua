--- NVIDIA H100, SXM, 80 GB.
return {
  name = "H100-SXM-80GB",
  summary = "NVIDIA H100, SXM, 80 GB",
  aliases = { "H100", "NVIDIA H100 80GB HBM3" },
  source = "ai-dynamo/aiconfigurator@095f58a systems/*.yaml (datasheets)",
  peak_flops = { bf16 = 989.5e12, fp16 = 989.5e12, fp32 = 67e12, fp8 = 1979e12, int8 = 1979e12, tf32 = 494.5e12 },
  measured_flops = { fp16 = 794.5e12, bf16 = 794.5e12, fp8 = 1402.6e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering@744d01e (MAMF, torch 2.7)",
  -- Memory as CUDA reports it: PyTorch prints "total capacity of 79.14 GiB".
  memory_bytes = 84.98e9, memory_bandwidth = 3.35e12, multiprocessors = 132, l2_bytes = 50 * 2^20,
  power_watts = 700,
  product_joules = 8.81e-13, -- of a bf16 FLOP: 700 W over measured_flops
  generation = "hopper",
  neighbours = { "h200_sxm" },
}

--- NVIDIA A100, SXM, 80 GB.
return {
  name = "NVIDIAA100-SXM4-80GB",
  summary = "NVIDIA A100, SXM, 80 GB",
  aliases = { "A100", "A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "A800" },
  source = "ai-dynamo/aiconfigurator@095f58a systems/*.yaml (datasheets)",
  peak_flops = { bf16 = 312e12, fp16 = 312e12, fp32 = 19.5e12, int8 = 624e12, tf32 = 156e12 },
  measured_flops = { fp16 = 271.2e12, bf16 = 271.2e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering@744d01e (MAMF, torch 2.6)",
  -- Memory as CUDA reports it: PyTorch prints "total capacity of 79.25 GiB".
  memory_bytes = 85.09e9, memory_bandwidth = 2.039e12, multiprocessors = 108, l2_bytes = 40 * 2^20,
  power_watts = 400,
  product_joules = 1.475e-12, -- of a bf16 FLOP: 400 W over measured_flops
  generation = "ampere",
  neighbours = { "h200_sxm", "h100_sxm" },
}

--- NVIDIA B200, SXM, 180 GB.
return {
  name = "B200-SXM-180GB",
  summary = "NVIDIA B200, SXM, 180 GB",
  aliases = { "B200", "NVIDIA B200" },
  source = "ai-dynamo/aiconfigurator@095f58a systems/*.yaml (datasheets)",
  peak_flops = { bf16 = 2250e12, fp16 = 2250e12, fp32 = 80e12, fp8 = 4500e12, nvfp4 = 9000e12, tf32 = 1125e12 },
  measured_flops = { fp16 = 1745e12, bf16 = 1745e12, fp8 = 3432.5e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering@744d01e (MAMF, torch 2.7)",
  -- Memory as CUDA reports it: PyTorch prints "total capacity of 178.35 GiB".
  memory_bytes = 191.5e9, memory_bandwidth = 8e12, multiprocessors = 148, l2_bytes = 126 * 2^20,
  power_watts = 1000,
  power = { idle_watts = 302, compute_watts = 648, memory_watts = 170,
    source = "bf16 products and attention of 0.1 ms and longer, ai-dynamo/aiconfigurator@095f58a (NVML, 100 ms); "
      .. "mean error of held-out shapes 17 %" },
  generation = "blackwell", any_fp8_layout = true,
  neighbours = { "gb300", "b300_sxm" },
}

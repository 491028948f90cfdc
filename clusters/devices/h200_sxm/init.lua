--- NVIDIA H200, SXM, 141 GB.
return {
  name = "H200-SXM-141GB",
  summary = "NVIDIA H200, SXM, 141 GB",
  aliases = { "H200", "NVIDIA H200" },
  source = "ai-dynamo/aiconfigurator@095f58a systems/*.yaml (datasheets)",
  peak_flops = { bf16 = 989.5e12, fp16 = 989.5e12, fp32 = 67e12, fp8 = 1979e12, int8 = 1979e12, tf32 = 494.5e12 },
  measured_flops = { fp16 = 794.5e12, bf16 = 794.5e12, fp8 = 1453.4e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering@744d01e (MAMF; bf16 noted as that of H100)",
  -- Memory as CUDA reports it: PyTorch prints "total capacity of 139.80 GiB".
  memory_bytes = 150.11e9, memory_bandwidth = 4.8e12, multiprocessors = 132, l2_bytes = 50 * 2^20,
  power_watts = 700,
  product_joules = 8.81e-13, -- of a bf16 FLOP: 700 W over measured_flops
  power = { idle_watts = 177, compute_watts = 692, memory_watts = 337,
    source = "bf16 products and attention of 0.1 ms and longer, ai-dynamo/aiconfigurator@095f58a (NVML, 100 ms); "
      .. "mean error of held-out shapes 18 %" },
  generation = "hopper",
  neighbours = { "h100_sxm", "gb300" },
}

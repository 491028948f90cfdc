--- AMD MI300X, 192 GB.
return {
  name = "MI300X",
  summary = "AMD MI300X, 192 GB",
  aliases = { "AMD MI300X", "MI300X-192GB" },
  source = "ai-dynamo/aiconfigurator@095f58a systems/*.yaml (datasheets)",
  peak_flops = { bf16 = 1307.4e12, fp16 = 1307.4e12, fp32 = 163.4e12,
    fp8 = 2614.9e12, int8 = 2614.9e12, tf32 = 653.7e12 },
  measured_flops = { fp16 = 668.4e12, bf16 = 668.4e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering@744d01e (MAMF, torch 2.5, ROCm 6.3)",
  -- Memory as the driver reports it: PyTorch prints "total capacity of 191.98 GiB".
  memory_bytes = 206.1e9, memory_bandwidth = 5.3e12, multiprocessors = 304, l2_bytes = 256 * 2^20,
  power_watts = 750,
  generation = "cdna3", vendor = "amd",
  neighbours = { "mi355x", "h200_sxm" },
}

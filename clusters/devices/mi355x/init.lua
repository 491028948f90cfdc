--- AMD MI355X, 288 GB.
return {
  name = "MI355X",
  summary = "AMD MI355X, 288 GB",
  aliases = { "AMD MI355X", "MI355X-288GB" },
  source = "ai-dynamo/aiconfigurator@095f58a systems/*.yaml (datasheets)",
  peak_flops = { bf16 = 2516.6e12, fp16 = 2516.6e12, fp32 = 157.3e12, fp8 = 5033e12, mxfp4 = 10066e12 },
  measured_flops = { fp16 = 1565e12, bf16 = 1565e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering@744d01e (MAMF, torch 2.8, ROCm 7.0)",
  -- Memory as the driver reports it: PyTorch prints "total capacity of 287.98 GiB".
  memory_bytes = 309.2e9, memory_bandwidth = 8e12, multiprocessors = 256, l2_bytes = 256 * 2^20,
  power_watts = 1400,
  generation = "cdna4", vendor = "amd",
  neighbours = { "mi300x", "b200_sxm", "h200_sxm" },
}

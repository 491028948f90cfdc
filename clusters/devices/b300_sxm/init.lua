--- NVIDIA B300, SXM, 270 GB.
return {
  name = "B300-SXM-270GB",
  summary = "NVIDIA B300, SXM, 270 GB",
  aliases = { "B300", "NVIDIA B300 SXM6 AC" },
  source = "ai-dynamo/aiconfigurator@095f58a systems/*.yaml (datasheets)",
  peak_flops = { bf16 = 2250e12, fp16 = 2250e12, fp32 = 80e12, fp8 = 4500e12, nvfp4 = 14000e12, tf32 = 1125e12 },
  -- Memory as the driver reports it: PyTorch prints "total capacity of 267.69 GiB".
  memory_bytes = 287.4e9, memory_bandwidth = 8e12, multiprocessors = 148, l2_bytes = 126 * 2^20,
  power_watts = 1100,
  generation = "blackwell", any_fp8_layout = true, exponentials = 32,
  neighbours = { "gb300", "b200_sxm" },
}

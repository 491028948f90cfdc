--- AMD MI250X, one of the two dies of a module, 64 GB: the device that PyTorch sees.
return {
  name = "MI250X die",
  summary = "AMD MI250X, one of the two dies of a module, 64 GB",
  aliases = { "MI250X GCD" },
  source = "half of mi250x",
  peak_flops = { bf16 = 191.5e12, fp16 = 191.5e12, fp32 = 23.95e12, int8 = 191.5e12 },
  measured_flops = { fp16 = 147e12, bf16 = 147e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering (MAMF, ROCm 6.2, one die)",
  -- Memory as the driver reports it: PyTorch prints "total capacity of 63.98 GiB".
  memory_bytes = 68.7e9, memory_bandwidth = 1.64e12, multiprocessors = 110, l2_bytes = 8 * 2^20,
  power_watts = 280,
  generation = "cdna2", vendor = "amd",
  neighbours = { "mi300x", "h200_sxm" },
  assumed = true,
}

--- AMD MI250X, one module of two dies, 128 GB.
return {
  name = "MI250X",
  summary = "AMD MI250X, one module of two dies, 128 GB",
  aliases = { "AMD MI250X" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 383e12, fp16 = 383e12, fp32 = 47.9e12, int8 = 383e12 },
  measured_flops = { fp16 = 294e12, bf16 = 294e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering (MAMF, ROCm 6.2: 147 of a die)",
  -- Memory as the driver reports it: PyTorch prints "total capacity of 63.98 GiB" for each die.
  memory_bytes = 137.4e9, memory_bandwidth = 3.28e12, multiprocessors = 220, l2_bytes = 16 * 2^20,
  power_watts = 560,
  generation = "cdna2", vendor = "amd",
  neighbours = { "mi300x", "h200_sxm" },
  assumed = true,
}

--- AMD MI325X, 256 GB.
return {
  name = "MI325X",
  summary = "AMD MI325X, 256 GB",
  aliases = { "AMD MI325X" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 1307.4e12, fp16 = 1307.4e12, fp32 = 163.4e12,
    fp8 = 2614.9e12, int8 = 2614.9e12, tf32 = 653.7e12 },
  measured_flops = { fp16 = 784.9e12, bf16 = 784.9e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering@744d01e (MAMF, torch 2.6, ROCm 6.2)",
  -- Memory as the driver reports it: PyTorch prints "total capacity of 255.98 GiB".
  memory_bytes = 274.9e9, memory_bandwidth = 6e12, multiprocessors = 304, l2_bytes = 256 * 2^20,
  power_watts = 1000,
  generation = "cdna3", vendor = "amd",
  neighbours = { "mi300x", "mi355x", "h200_sxm" },
  assumed = true,
}

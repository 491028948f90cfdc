--- Intel Gaudi 3, 128 GB.
return {
  name = "Gaudi 3",
  summary = "Intel Gaudi 3, 128 GB",
  aliases = { "Gaudi3" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 1677e12, fp32 = 229e12, fp8 = 1677e12, tf32 = 459e12 },
  measured_flops = { bf16 = 1243e12, fp8 = 1289.5e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering (MAMF, torch 2.6; @744d01e)",
  memory_bytes = 128e9, memory_bandwidth = 3.7e12, multiprocessors = 64, l2_bytes = 96 * 2^20,
  power_watts = 900,
  generation = "gaudi", vendor = "intel",
  neighbours = { "h100_sxm", "h200_sxm" },
  assumed = true,
}

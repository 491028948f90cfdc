--- Intel Gaudi 2, 96 GB.
return {
  name = "Gaudi 2",
  summary = "Intel Gaudi 2, 96 GB",
  aliases = { "Gaudi2" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 432e12, fp8 = 865e12 },
  measured_flops = { bf16 = 418.7e12, fp8 = 826.5e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering (MAMF, torch 2.6; @744d01e)",
  memory_bytes = 96e9, memory_bandwidth = 2.46e12, multiprocessors = 24, l2_bytes = 48 * 2^20,
  power_watts = 600,
  generation = "gaudi", vendor = "intel",
  neighbours = { "h100_sxm", "h200_sxm" },
  assumed = true,
}

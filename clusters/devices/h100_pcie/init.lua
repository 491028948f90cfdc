--- NVIDIA H100, PCIe, 80 GB.
return {
  name = "H100-PCIe-80GB",
  summary = "NVIDIA H100, PCIe, 80 GB",
  aliases = { "H100 PCIe" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 756e12, fp16 = 756e12, fp32 = 51e12, fp8 = 1513e12, int8 = 1513e12, tf32 = 378e12 },
  memory_bytes = 80e9, memory_bandwidth = 2e12, multiprocessors = 114, l2_bytes = 50 * 2^20,
  power_watts = 350,
  generation = "hopper",
  neighbours = { "h100_sxm", "h200_sxm" },
  assumed = true,
}

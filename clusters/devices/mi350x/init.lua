--- AMD MI350X, OAM, 288 GB.
return {
  name = "MI350X",
  summary = "AMD MI350X, OAM, 288 GB",
  aliases = { "AMD MI350X", "MI350X-288GB" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 2300e12, fp16 = 2300e12, fp32 = 144e12, fp8 = 4600e12, mxfp4 = 9200e12 },
  -- Memory of MI355X: datasheets print 288 GB for both.
  memory_bytes = 309.2e9, memory_bandwidth = 8e12, multiprocessors = 256, l2_bytes = 256 * 2^20,
  power_watts = 1000,
  generation = "cdna4", vendor = "amd",
  neighbours = { "mi355x", "mi300x", "b200_sxm", "h200_sxm" },
  assumed = true,
}

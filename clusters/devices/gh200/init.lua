--- NVIDIA GH200, 96 GB. Its GPU is the chip of the H100.
return {
  summary = "NVIDIA GH200, 96 GB",
  name = "NVIDIAGH200120GB", aliases = { "GH200", "GH200-96GB" },
  source = "NVIDIA GH200 datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md",
  peak_flops = { fp32 = 67e12, tf32 = 494.5e12, fp16 = 989e12, bf16 = 989e12, fp8 = 1979e12, int8 = 1979e12 },
  measured_flops = { fp16 = 828.6e12, bf16 = 828.6e12, fp8 = 1535e12 }, measured_in_bursts = true,
  measured_source = "highest rate of many products, stas00/ml-engineering@744d01e (MAMF, torch 2.6, 900 W version)",
  memory_bytes = 96e9, memory_bandwidth = 4e12, multiprocessors = 132, l2_bytes = 50 * 2^20,
  generation = "hopper", host = "grace",
  neighbours = { "h200_sxm" },
}

--- GH200, 96 GB (datasheet).
-- 132 SMs: NVIDIA H100 architecture whitepaper, whose chip it is.
return {
  name = "NVIDIAGH200120GB", aliases = { "GH200-96GB", "gh200" },
  source = "NVIDIA GH200 datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md",
  peak_flops = { fp32 = 67e12, tf32 = 494.5e12, fp16 = 989e12, bf16 = 989e12, fp8 = 1979e12, int8 = 1979e12 },
  measured_flops = { fp16 = 828.6e12, bf16 = 828.6e12, fp8 = 1535e12 },
  measured_source = "largest sustained matmul, stas00/ml-engineering@744d01e (MAMF, torch 2.6, 900 W version)",
  memory_bytes = 96e9, memory_bandwidth = 4.0e12, multiprocessors = 132,
}

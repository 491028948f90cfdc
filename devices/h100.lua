--- H100-SXM-80GB (datasheet).
-- 132 SMs: NVIDIA H100 architecture whitepaper.
return {
  name = "H100-SXM-80GB", aliases = { "H100" },
  source = "NVIDIA datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md",
  peak_flops = { fp32 = 67e12, tf32 = 494.5e12, fp16 = 989e12, bf16 = 989e12, fp8 = 1979e12, int8 = 1979e12 },
  measured_flops = { fp16 = 794.5e12, bf16 = 794.5e12, fp8 = 1402.6e12 },
  measured_source = "largest sustained matmul, stas00/ml-engineering@744d01e (MAMF, torch 2.7)",
  memory_bytes = 80e9, memory_bandwidth = 3.35e12, multiprocessors = 132, power_watts = 700,
}

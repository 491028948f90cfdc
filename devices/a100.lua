--- A100-SXM4-80GB (datasheet).
-- 108 SMs: NVIDIA A100 architecture whitepaper.
return {
  name = "NVIDIAA100-SXM4-80GB", aliases = { "A100-SXM4-80GB", "a100" },
  source = "NVIDIA A100 datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md",
  peak_flops = { fp32 = 19.5e12, tf32 = 156e12, fp16 = 312e12, bf16 = 312e12, int8 = 624e12 },
  measured_flops = { fp16 = 271.2e12, bf16 = 271.2e12 },
  measured_source = "largest sustained matmul, stas00/ml-engineering@744d01e (MAMF, torch 2.6)",
  memory_bytes = 80e9, memory_bandwidth = 2.0e12, multiprocessors = 108, power_watts = 400,
}

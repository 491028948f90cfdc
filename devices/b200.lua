--- B200-SXM-180GB (datasheet).
-- 148 SMs: tuning tables of public kernel libraries (B200 148, GB300 152).
return {
  name = "B200-SXM-180GB", aliases = { "B200" },
  source = "NVIDIA datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md",
  peak_flops = { fp32 = 80e12, tf32 = 1125e12, fp16 = 2250e12, bf16 = 2250e12, fp8 = 4500e12, int8 = 4500e12 },
  measured_flops = { fp16 = 1745e12, bf16 = 1745e12, fp8 = 3432.5e12 },
  measured_source = "largest sustained matmul, stas00/ml-engineering@744d01e (MAMF, torch 2.7)",
  memory_bytes = 180e9, memory_bandwidth = 8.0e12, multiprocessors = 148, power_watts = 1000,
}

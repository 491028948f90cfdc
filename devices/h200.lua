--- H200-SXM-141GB (datasheet).
-- 132 SMs: the H100's chip.
return {
  name = "H200-SXM-141GB", aliases = { "H200" },
  source = "NVIDIA datasheet, as cited by stas00/ml-engineering@744d01e compute/accelerator/README.md",
  peak_flops = { fp32 = 67e12, tf32 = 494.5e12, fp16 = 989e12, bf16 = 989e12, fp8 = 1979e12, int8 = 1979e12 },
  measured_flops = { fp16 = 794.5e12, bf16 = 794.5e12, fp8 = 1453.4e12 },
  measured_source = "largest sustained matmul, stas00/ml-engineering@744d01e (MAMF; bf16 noted as that of H100)",
  memory_bytes = 141e9, memory_bandwidth = 4.8e12, multiprocessors = 132, power_watts = 700,
}

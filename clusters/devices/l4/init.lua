--- NVIDIA L4, PCIe, 24 GB.
return {
  name = "L4",
  summary = "NVIDIA L4, PCIe, 24 GB",
  aliases = { "NVIDIA L4" },
  source = "assumed: from memory of the vendor's datasheet",
  peak_flops = { bf16 = 121e12, fp16 = 121e12, fp32 = 30.3e12, fp8 = 242e12, int8 = 242e12, tf32 = 60e12 },
  measured_flops = { fp16 = 59.4e12, bf16 = 59.4e12 },
  measured_source = "sustained matmul, zzc0721/torch-performance-test-data#120 (torch.mm of 8192, torch 2.9)",
  -- Memory as the driver reports it: PyTorch prints "total capacity of 22.03 GiB".
  memory_bytes = 23.66e9, memory_bandwidth = 0.3e12, multiprocessors = 58, l2_bytes = 48 * 2^20,
  power_watts = 72,
  product_joules = 1.212e-12, -- of a bf16 FLOP: 72 W over measured_flops
  generation = "ada",
  neighbours = { "l40s", "h200_sxm" },
  assumed = true,
}

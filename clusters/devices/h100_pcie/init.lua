--- NVIDIA H100, PCIe, 80 GB.
return {
  name = "H100-PCIe-80GB",
  summary = "NVIDIA H100, PCIe, 80 GB",
  aliases = { "H100 PCIe", "H800 PCIe" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 756e12, fp16 = 756e12, fp32 = 51e12, fp8 = 1513e12, int8 = 1513e12, tf32 = 378e12 },
  measured_flops = { fp16 = 495.9e12, bf16 = 495.9e12 },
  -- H800 PCIe, the same chip, reaches 503.8 (#112). A product of 16640 x 5120 x 8192 reaches 433 (pytorch/ao#3342).
  measured_source = "sustained matmul, zzc0721/torch-performance-test-data#95 (torch.mm of 4096, torch 2.9)",
  memory_bytes = 80e9, memory_bandwidth = 2e12, multiprocessors = 114, l2_bytes = 50 * 2^20,
  power_watts = 350,
  product_joules = 7.06e-13, -- of a bf16 FLOP: 350 W over measured_flops
  generation = "hopper",
  neighbours = { "h100_sxm", "h200_sxm" },
  assumed = true,
}

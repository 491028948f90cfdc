--- NVIDIA A40, PCIe, 48 GB.
return {
  name = "A40",
  summary = "NVIDIA A40, PCIe, 48 GB",
  aliases = { "NVIDIA A40" },
  source = "assumed: from memory of the vendor's datasheet",
  peak_flops = { bf16 = 149.7e12, fp16 = 149.7e12, fp32 = 37.4e12, int8 = 299.3e12, tf32 = 74.8e12 },
  measured_flops = { fp16 = 122.3e12, bf16 = 122.3e12 },
  measured_source = "sustained matmul, zzc0721/torch-performance-test-data#185 (torch.mm of 10240, torch 2.11)",
  memory_bytes = 48e9, memory_bandwidth = 0.696e12, multiprocessors = 84, l2_bytes = 6 * 2^20,
  power_watts = 300,
  product_joules = 2.453e-12, -- of a bf16 FLOP: 300 W over measured_flops (Samsung 8N, A100: TSMC 7)
  generation = "ampere",
  neighbours = { "a100_sxm", "h200_sxm" },
  assumed = true,
}

--- NVIDIA A10G, PCIe, 24 GB (AWS g5).
return {
  name = "A10G",
  summary = "NVIDIA A10G, PCIe, 24 GB (AWS g5)",
  aliases = { "NVIDIA A10G" },
  source = "assumed: from memory of NVIDIA's A10G datasheet for AWS",
  peak_flops = { bf16 = 70e12, fp16 = 70e12, fp32 = 31.5e12, int8 = 140e12, tf32 = 35e12 },
  -- Memory as the driver reports it: PyTorch prints 22.2 GiB; assumed.
  memory_bytes = 23.8e9, memory_bandwidth = 0.6e12, multiprocessors = 80, l2_bytes = 6 * 2^20,
  power_watts = 300,
  generation = "ampere",
  neighbours = { "a100_sxm", "h200_sxm" },
  assumed = true,
}

--- NVIDIA A40, PCIe, 48 GB.
return {
  name = "A40",
  summary = "NVIDIA A40, PCIe, 48 GB",
  aliases = { "NVIDIA A40" },
  source = "assumed: from memory of the vendor's datasheet",
  peak_flops = { bf16 = 149.7e12, fp16 = 149.7e12, fp32 = 37.4e12, int8 = 299.3e12, tf32 = 74.8e12 },
  memory_bytes = 48e9, memory_bandwidth = 0.696e12, multiprocessors = 84, l2_bytes = 6e6,
  power_watts = 300,
  product_joules = 1.475e-12, -- of a bf16 FLOP: as A100, whose warp-level products it shares
  generation = "ampere",
  neighbours = { "a100_sxm", "h200_sxm" },
  assumed = true,
}

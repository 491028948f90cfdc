--- NVIDIA L40S, PCIe, 48 GB.
return {
  name = "L40S",
  summary = "NVIDIA L40S, PCIe, 48 GB",
  aliases = { "NVIDIA L40S" },
  source = "ai-dynamo/aiconfigurator@095f58a systems/*.yaml (datasheets)",
  peak_flops = { bf16 = 362e12, fp16 = 362e12, fp32 = 91.6e12, fp8 = 733e12, int8 = 733e12, tf32 = 183e12 },
  -- Memory as CUDA reports it: PyTorch prints "total capacity of 44.40 GiB".
  memory_bytes = 47.67e9, memory_bandwidth = 0.864e12, multiprocessors = 142, l2_bytes = 96 * 2^20,
  power_watts = 350,
  product_joules = 1.475e-12, -- of a bf16 FLOP: as A100, whose warp-level products it shares
  generation = "ada",
  neighbours = { "rtx_pro_6000", "h200_sxm" },
}

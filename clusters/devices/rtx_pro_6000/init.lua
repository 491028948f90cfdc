--- NVIDIA RTX PRO 6000 Blackwell, PCIe, 96 GB.
return {
  name = "RTX PRO 6000 Blackwell Server Edition",
  summary = "NVIDIA RTX PRO 6000 Blackwell, PCIe, 96 GB",
  aliases = { "RTX PRO 6000" },
  source = "ai-dynamo/aiconfigurator@095f58a systems/*.yaml (datasheets)",
  peak_flops = { bf16 = 467.8e12, fp16 = 467.8e12, fp32 = 117e12, fp8 = 935.6e12, nvfp4 = 1871e12 },
  -- Memory as the driver reports it: PyTorch prints "total capacity of 94.97 GiB".
  memory_bytes = 101.97e9, memory_bandwidth = 1.792e12, multiprocessors = 188, l2_bytes = 128 * 2^20,
  power_watts = 600,
  product_joules = 1.475e-12, -- of a bf16 FLOP: as A100, whose warp-level products it shares
  tables = "rtx_pro_6000_server",
  generation = "blackwell",
  neighbours = { "l40s", "gb300" },
}

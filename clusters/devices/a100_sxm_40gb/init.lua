--- NVIDIA A100, SXM, 40 GB: the same chip with slower memory.
return {
  name = "A100-SXM4-40GB",
  summary = "NVIDIA A100, SXM, 40 GB",
  aliases = { "NVIDIA A100-SXM4-40GB", "A800-SXM4-40GB" },
  source = "NVIDIA A100 datasheet",
  peak_flops = { bf16 = 312e12, fp16 = 312e12, fp32 = 19.5e12, int8 = 624e12, tf32 = 156e12 },
  measured_flops = { fp16 = 271.2e12, bf16 = 271.2e12 }, measured_in_bursts = true,
  measured_source = "as a100_sxm",
  -- Memory as CUDA reports it: nvidia-smi prints 40536 MiB (huggingface/transformers#14913).
  memory_bytes = 42.5e9, memory_bandwidth = 1.555e12, multiprocessors = 108, l2_bytes = 40 * 2^20,
  power_watts = 400,
  product_joules = 1.475e-12, -- as a100_sxm
  generation = "ampere",
  neighbours = { "a100_sxm", "h200_sxm" },
}

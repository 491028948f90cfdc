--- Google TPU v6e (Trillium), one chip, 32 GB.
return {
  name = "TPU v6e",
  summary = "Google TPU v6e (Trillium), one chip, 32 GB",
  aliases = { "TPU-v6e" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 918e12, fp8 = 918e12, int8 = 1836e12 },
  measured_flops = { bf16 = 727.7e12 },
  measured_source = "yangwhale/gpu-tpu-pedia results_trace_test.csv (product of 8192)",
  -- Memory that programs can use: 33550237696 bytes (vllm-project/vllm#16211, gpu_memory_per_device).
  -- Memory rate: docs.cloud.google.com/tpu/docs/v6e (1638 GBps).
  memory_bytes = 33.55e9, memory_bandwidth = 1.638e12, multiprocessors = 1, l2_bytes = 128 * 2^20,
  matrix_side = 256, -- jax-ml/scaling-book, tpus.md
  generation = "tpu", vendor = "google",
  neighbours = { "h200_sxm" },
  assumed = true,
}

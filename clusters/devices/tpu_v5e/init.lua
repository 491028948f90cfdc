--- Google TPU v5e, one chip, 16 GB.
return {
  name = "TPU v5e",
  summary = "Google TPU v5e, one chip, 16 GB",
  aliases = { "TPU-v5e" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 197e12, int8 = 394e12 },
  measured_flops = { bf16 = 181.8e12 },
  measured_source = "jax-ml/jax docs/pallas/tpu/matmul (XLA, product of 8192)",
  -- Memory that programs can use: 15.75 GiB, assumed.
  memory_bytes = 16.91e9, memory_bandwidth = 0.82e12, multiprocessors = 1, l2_bytes = 128 * 2^20,
  generation = "tpu", vendor = "google",
  neighbours = { "h200_sxm" },
  assumed = true,
}

--- Google TPU v4, one chip, 32 GB.
return {
  name = "TPU v4",
  summary = "Google TPU v4, one chip, 32 GB",
  aliases = { "TPU-v4" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 275e12, int8 = 275e12 },
  measured_flops = { bf16 = 253.8e12 },
  measured_source = "assumed: the share of TPU v5e, whose matrix units are as large (128 x 128)",
  -- Memory that programs can use: XLA prints "of 30.75G hbm" on v4-32 (erfanzar/EasyDeL#166). G is GiB:
  -- pytorch/xla#1735.
  memory_bytes = 33.02e9, memory_bandwidth = 1.2e12, multiprocessors = 2, l2_bytes = 128 * 2^20,
  power_watts = 192,
  generation = "tpu", vendor = "google",
  neighbours = { "h200_sxm" },
  assumed = true,
}

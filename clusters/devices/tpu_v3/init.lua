--- Google TPU v3, one chip, 32 GB.
return {
  name = "TPU v3",
  summary = "Google TPU v3, one chip, 32 GB",
  aliases = { "TPU-v3" },
  source = "docs.cloud.google.com/tpu/docs/v3",
  peak_flops = { bf16 = 123e12 },
  measured_flops = { bf16 = 113.5e12 },
  measured_source = "assumed: the share of TPU v5e, whose matrix units are as large (128 x 128)",
  -- 32 GiB, of which programs can use as large a share as on TPU v4; assumed.
  memory_bytes = 33.02e9, memory_bandwidth = 0.9e12, multiprocessors = 2, l2_bytes = 32 * 2^20,
  power_watts = 262,
  partitions = 2, -- software sees each of the two cores as a device
  generation = "tpu", vendor = "google",
  neighbours = { "h200_sxm" },
  assumed = true,
}

--- Google TPU v7x (Ironwood), one chip, 192 GB.
return {
  name = "TPU v7x",
  summary = "Google TPU v7x (Ironwood), one chip, 192 GB",
  aliases = { "TPU7x", "Ironwood" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 2307e12, fp8 = 4614e12 },
  measured_flops = { bf16 = 1913e12 },
  measured_source = "AI-Hypercomputer/accelerator-microbenchmarks Ironwood (twice a device's rate, product of 32768)",
  -- Memory that programs can use: XLA prints "of 94.75G hbm" for each of the two devices (yangwhale/gpu-tpu-pedia,
  -- tpu/tpu-inference/GLM-5.1-754B-FP4/README-TPU-VM.en.md). G is GiB: pytorch/xla#1735.
  memory_bytes = 203.5e9, memory_bandwidth = 7.37e12, multiprocessors = 2, l2_bytes = 128 * 2^20,
  partitions = 2, -- JAX lists a chip as two devices (AI-Hypercomputer/tpu-recipes)
  -- Permuting 8192 tokens of 6144 values to 8 experts and back takes 2.1 ms a device (sgl-project/sglang-jax#1650:
  -- 2.1 s for 75 layers and 110,000 tokens).
  gather_share = 0.235,
  generation = "tpu", vendor = "google",
  neighbours = { "h200_sxm" },
  assumed = true,
}

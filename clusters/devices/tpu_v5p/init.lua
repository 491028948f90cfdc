--- Google TPU v5p, one chip, 95 GB.
return {
  name = "TPU v5p",
  summary = "Google TPU v5p, one chip, 95 GB",
  aliases = { "TPU-v5p" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 459e12, int8 = 918e12 },
  measured_flops = { bf16 = 423.6e12 },
  measured_source = "assumed: the share of TPU v5e, whose matrix units are as large (128 x 128)",
  -- Memory that programs can use: XLA prints "of 95.74G hbm" on four chips (yangwhale/gpu-tpu-pedia,
  -- tpu/Hunyuan3-295B-Pretraining/EXPERIMENT-LOG.md, 3.3). G is GiB: pytorch/xla#1735.
  memory_bytes = 102.8e9, memory_bandwidth = 2.76e12, multiprocessors = 2, l2_bytes = 128 * 2^20,
  -- MaxText reaches 50.4 % of the peak rate with 8 experts and top 2. With 56 experts of a seventh of the width and top
  -- 14 it reaches 28 % (AI-Hypercomputer/maxtext#1256).
  gather_share = 0.035,
  generation = "tpu", vendor = "google",
  neighbours = { "h200_sxm" },
  assumed = true,
}

--- Google TPU v7x (Ironwood), one chip, 192 GB.
return {
  name = "TPU v7x",
  summary = "Google TPU v7x (Ironwood), one chip, 192 GB",
  aliases = { "TPU7x", "Ironwood" },
  source = "stas00/ml-engineering@744d01e compute/accelerator/README.md (vendors' datasheets)",
  peak_flops = { bf16 = 2307e12, fp8 = 4614e12 },
  -- Products of 7168 x 7168 and 7168 x 129280 with 4096 to 32768 rows reach 0.743 to 0.786 of the peak, 0.767 in the
  -- mean. Those of accelerator-microbenchmarks reach 0.83, because they set --xla_tpu_dvfs_p_state=7
  -- (op_flags.yaml). The default is 3, and recipes do not set it. Steps are 8 to 9 % faster at 7
  -- (yangwhale/gpu-tpu-pedia, tpu/Hunyuan3-295B-Pretraining/TUNING-v7.md).
  measured_flops = { bf16 = 1770e12 },
  measured_source = "ultrons/jax-gpt autoperf/microbench-results/v7x_4x8x8_bf16_2026-05-07 (twice a device's rate)",
  -- Memory that programs can use: XLA prints "of 94.75G hbm" for each of the two devices (yangwhale/gpu-tpu-pedia,
  -- tpu/tpu-inference/GLM-5.1-754B-FP4/README-TPU-VM.en.md). G is GiB: pytorch/xla#1735.
  memory_bytes = 203.5e9, memory_bandwidth = 7.37e12, multiprocessors = 2, l2_bytes = 128 * 2^20,
  partitions = 2, -- JAX lists a chip as two devices (AI-Hypercomputer/tpu-recipes)
  -- Permuting 8192 tokens of 6144 values to 8 experts and back takes 2.1 ms a device (sgl-project/sglang-jax#1650:
  -- 2.1 s for 75 layers and 110,000 tokens).
  gather_share = 0.235,
  -- Adding 131,072 rows of 7168 bf16 values to rows by index takes 14.5 ms on one of a chip's two devices: 1684.9 ms
  -- for 58 layers of 2 parts (ultrons/jax-gpt, research/dsv3/iter4_moe_gmm_ag_bisection.md, "scatter"). model.py,
  -- _expert_mlp_gmm_ag_body, gives the number of rows. Assumed: the time of a row is proportional to its bytes.
  scatter_share = 0.035,
  matrix_side = 256, -- ultrons/jax-gpt, autoperf/v7x_KNOWLEDGE.md
  generation = "tpu", vendor = "google",
  neighbours = { "h200_sxm" },
  assumed = true,
}

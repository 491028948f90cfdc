--- TPU v6e: a slice of up to 256 chips on a two-dimensional torus.
return {
  name = "tpu_v6e",
  summary = "TPU v6e slice, two-dimensional torus of ICI links",
  source = "jax-ml/scaling-book@0819a7d tpus.md",
  gpus_per_node = 256,
  price_per_gpu_hour = 2.70,
  price_source = "Google Cloud TPU, on demand, us-east1, October 2026: 2.70 $ per chip and hour "
    .. "(price sheet as cited by the serving benchmark of sgl-jax)",
  device = "tpu_v6e", stack = "maxtext",
  host = { name = "PCIe", bandwidth = 32e9, source = "32 GB/s per chip: jax-ml/scaling-book@04d8de5 tpus.md" },
  links = {
    intra = { name = "ICI torus, 2 axes of 2 links of 90 GB/s", bandwidth = 360e9, torus = { 16, 16 },
      -- Profiles of Qwen3-8B on eight chips (vlasenkoalexey/tpu_performance_autoresearch_wiki). The reduce-scatters of
      -- bf16 gradients take 149 ms a step of 8192 tokens, without a start and a done as gathers have
      -- (qwen3-jax-fsdp-rs-not-overlapped.md, 2026-06-02-v018-xla-flag-stack.md: weights_dtype=bf16). In MaxText's step
      -- of 24,576 tokens they take 143 to 145 ms (2026-06-12-maxtext-vs-jax-bucket-diff.md; 4.0 % of 3612 ms in
      -- 2026-06-02-maxtext-vs-jax-qwen3-8b-mfu-gap.md). At the rate of all links they would take 80 ms.
      blocking_reductions = 0.545,
      source = "jax-ml/scaling-book@0819a7d tpus.md, sharding.md: 90 GB/s per link one way; gathers use both "
        .. "directions of both axes" },
    inter = { name = "data-centre network", bandwidth_per_gpu = 12.5e9, bandwidth_per_node = 3200e9,
      source = "12.5 GB/s per chip between slices: jax-ml/scaling-book tpus.md" },
  },
}

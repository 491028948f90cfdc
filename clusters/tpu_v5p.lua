--- TPU v5p: a slice of chips on a three-dimensional torus.
return {
  name = "tpu_v5p",
  summary = "TPU v5p slice, three-dimensional torus of ICI links",
  source = "jax-ml/scaling-book@0819a7d tpus.md",
  gpus_per_node = 64,
  price_per_gpu_hour = 4.20,
  price_source = "Google Cloud TPU, on demand, us-east5, October 2026: 4.20 $ per chip and hour "
    .. "(price sheet as cited by the serving benchmark of sgl-jax)",
  device = "tpu_v5p", stack = "maxtext",
  host = { name = "PCIe", bandwidth = 15e9, source = "15 GB/s per chip: jax-ml/scaling-book@04d8de5 tpus.md" },
  links = {
    intra = { name = "ICI torus, 3 axes of 2 links of 90 GB/s", bandwidth = 540e9, torus = { 4, 4, 4 },
      whole_rings = true,
      source = "jax-ml/scaling-book@0819a7d tpus.md, sharding.md: 90 GB/s per link one way; gathers use both "
        .. "directions of all axes" },
    inter = { name = "ICI torus", latency = 4e-6, bandwidth_per_gpu = 540e9, bandwidth_per_node = 8640e9, axes = 3,
      source = "the torus continues beyond 64 chips, over six faces of 16 links: docs.cloud.google.com/tpu/docs/v5p; "
        .. "assumed: a step through 64 chips takes four hops" },
  },
}

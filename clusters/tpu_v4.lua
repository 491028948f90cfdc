--- TPU v4: a slice of chips on a three-dimensional torus.
return {
  name = "tpu_v4",
  summary = "TPU v4 slice, three-dimensional torus of ICI links",
  source = "jax-ml/scaling-book@0819a7d tpus.md",
  gpus_per_node = 64,
  price_source = "unset: no list price was looked up",
  device = "tpu_v4", stack = "maxtext",
  host = { name = "PCIe", bandwidth = 15e9, source = "15 GB/s per chip: jax-ml/scaling-book@04d8de5 tpus.md" },
  links = {
    intra = { name = "ICI torus, 3 axes of 2 links of 45 GB/s", bandwidth = 270e9, torus = { 4, 4, 4 },
      whole_rings = true,
      source = "jax-ml/scaling-book@0819a7d tpus.md, sharding.md: 45 GB/s per link one way; gathers use both "
        .. "directions of all axes" },
    inter = { name = "ICI torus", latency = 4e-6, bandwidth_per_gpu = 270e9, bandwidth_per_node = 4320e9, axes = 3,
      source = "the torus continues beyond 64 chips, over six faces of 16 links, as of TPU v5p; "
        .. "assumed: a step through 64 chips takes four hops" },
  },
}

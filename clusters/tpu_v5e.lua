--- TPU v5e: a slice of up to 256 chips on a two-dimensional torus.
return {
  name = "tpu_v5e",
  summary = "TPU v5e slice, two-dimensional torus of ICI links",
  source = "jax-ml/scaling-book@0819a7d tpus.md",
  gpus_per_node = 256,
  price_source = "unset: no list price was looked up",
  device = "tpu_v5e", stack = "maxtext",
  host = { name = "PCIe", bandwidth = 15e9, source = "15 GB/s per chip: jax-ml/scaling-book@04d8de5 tpus.md" },
  links = {
    intra = { name = "ICI torus, 2 axes of 2 links of 45 GB/s", bandwidth = 180e9, torus = { 16, 16 },
      source = "jax-ml/scaling-book@0819a7d tpus.md, sharding.md: 45 GB/s per link one way; gathers use both "
        .. "directions of both axes" },
    inter = { name = "data-centre network", bandwidth_per_gpu = 3.1e9, bandwidth_per_node = 800e9,
      source = "6.4 Tbit/s of 256 chips: docs.cloud.google.com/tpu/docs/v5e" },
  },
}

--- TPU v7x (Ironwood): a slice of up to 256 chips on a three-dimensional torus.
return {
  name = "tpu_v7x",
  summary = "TPU v7x slice, three-dimensional torus of ICI links",
  source = "stas00/ml-engineering@744d01e network/README.md",
  gpus_per_node = 256,
  price_per_gpu_hour = 12.00,
  price_source = "Google Cloud TPU, on demand, us-central1, October 2026: 12.00 $ a chip and hour "
    .. "(price sheet as cited by the serving benchmark of sgl-jax)",
  device = "tpu_v7x", stack = "maxtext",
  links = {
    intra = { name = "ICI torus, 3 axes", bandwidth = 600e9,
      source = "600 GB/s a chip one way: stas00/ml-engineering@744d01e network/README.md" },
    inter = { name = "data-centre network", bandwidth_per_gpu = 3.1e9, bandwidth_per_node = 800e9,
      source = "assumed: 25 Gbit/s a chip between slices" },
  },
}

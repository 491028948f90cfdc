--- TPU v7x (Ironwood): a slice of up to 9,216 chips on a three-dimensional torus.
return {
  name = "tpu_v7x",
  summary = "TPU v7x slice, three-dimensional torus of ICI links",
  source = "stas00/ml-engineering@744d01e network/README.md",
  gpus_per_node = 64,
  price_per_gpu_hour = 12.00,
  price_source = "Google Cloud TPU, on demand, us-central1, October 2026: 12.00 $ per chip and hour "
    .. "(price sheet as cited by the serving benchmark of sgl-jax)",
  device = "tpu_v7x", stack = "maxtext:attention=tokamax", -- tpu-recipes for Ironwood: use_tokamax_splash
  host = { name = "PCIe", bandwidth = 32e9, source = "assumed: that of TPU v6e" },
  links = {
    -- Google gives 600 GB/s per chip one way, as for v5p. Its own gather over two links of a chip reaches 178.8 GB/s:
    -- AI-Hypercomputer/accelerator-microbenchmarks, Ironwood/guides/collectives/all_gather.md.
    intra = { name = "ICI torus, 3 axes of 2 links of 90 GB/s", bandwidth = 540e9, torus = { 4, 4, 4 },
      whole_rings = true,
      source = "90 GB/s per link one way: jax-ml/scaling-book#115" },
    inter = { name = "ICI torus", latency = 4e-6, bandwidth_per_gpu = 540e9, bandwidth_per_node = 8640e9, axes = 3,
      source = "a pod has 9,216 chips: docs.cloud.google.com/tpu/docs/tpu7x; 64 have six faces of 16 links; "
        .. "a step through 64 chips takes four hops, assumed" },
  },
}

--- TPU v3: a pod of 1024 chips on a two-dimensional torus.
return {
  name = "tpu_v3",
  summary = "TPU v3 pod, two-dimensional torus of ICI links",
  source = "docs.cloud.google.com/tpu/docs/v3",
  gpus_per_node = 1024,
  price_source = "unset: no list price was looked up",
  device = "tpu_v3", stack = "maxtext",
  host = { name = "PCIe", bandwidth = 15e9, source = "assumed: as TPU v4" },
  links = {
    intra = { name = "ICI torus, 2 axes of 2 links of 82 GB/s", bandwidth = 328e9, torus = { 32, 32 },
      source = "656 Gbit/s per link: Jouppi et al., CACM 63 (7), 2020; 340 TB/s of a pod's all-reduce: "
        .. "docs.cloud.google.com/tpu/docs/v3" },
    inter = { name = "data-centre network", bandwidth_per_gpu = 3.1e9, bandwidth_per_node = 3200e9,
      source = "assumed: per chip as TPU v5e" },
  },
}

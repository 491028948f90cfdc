--- One RTX 3090. For literature.tsv.
return {
  name = "rtx_3090_1", summary = "one RTX 3090", gpus_per_node = 1, device = "rtx_3090",
  source = "huggingface/pytorch-image-models, results/benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv",
  price_source = "unset: no list price was looked up",
  links = {
    intra = { name = "none", bandwidth = 25e9, source = "a single device" },
    inter = { name = "none", bandwidth_per_gpu = 1e9, bandwidth_per_node = 1e9, source = "a single device" },
  },
}

--- AnswerDotAI's workstation with two RTX 3090, limited to 280 W. For literature.tsv.
return {
  name = "rtx_3090_2", summary = "2x RTX 3090 at 280 W, slow PCIe", gpus_per_node = 2, device = "rtx_3090",
  source = "AnswerDotAI/fsdp_qlora@23fafdf benchmarks_03_2024.md",
  host = { name = "PCIe", bandwidth = 6e9, memory_bytes = 64e9, source = "assumed: slots of few lanes" },
  power = { device_watts = 280, source = "as source" },
  price_source = "unset: no list price was looked up",
  links = {
    intra = { name = "PCIe", bandwidth = 5e9, source = "assumed: slots of few lanes" },
    inter = { name = "none", bandwidth_per_gpu = 1e9, bandwidth_per_node = 1e9, source = "a single node" },
  },
}

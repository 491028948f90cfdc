--- AnswerDotAI's workstation with two RTX 4090. For literature.tsv.
return {
  name = "rtx_4090_2", summary = "2x RTX 4090, PCIe 4 x16", gpus_per_node = 2, device = "rtx_4090",
  source = "AnswerDotAI/fsdp_qlora@23fafdf benchmarks_03_2024.md",
  host = { name = "PCIe 4 x16", bandwidth = 25e9, memory_bytes = 64e9, source = "80 % of 31.5 GB/s, assumed" },
  price_source = "unset: no list price was looked up",
  links = {
    intra = { name = "PCIe 4 x16", bandwidth = 20e9, source = "assumed: as l40s_node's two GPUs" },
    inter = { name = "none", bandwidth_per_gpu = 1e9, bandwidth_per_node = 1e9, source = "a single node" },
  },
}

--- A workstation with two RTX PRO 6000. For fits.tsv.
return {
  name = "rtx_pro_6000_2", summary = "2x RTX PRO 6000, PCIe 5 x16", gpus_per_node = 2, device = "rtx_pro_6000",
  source = "ljm565/universal-llm-trainer, GPU Test",
  host = { name = "PCIe 5 x16", bandwidth = 50e9, source = "80 % of 63 GB/s, assumed" },
  price_source = "unset: no list price was looked up",
  links = {
    intra = { name = "PCIe 5 x16", bandwidth = 40e9, source = "assumed: twice rtx_4090_2's" },
    inter = { name = "none", bandwidth_per_gpu = 1e9, bandwidth_per_node = 1e9, source = "a single node" },
  },
}

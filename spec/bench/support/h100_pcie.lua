--- One H100 PCIe. For literature.tsv.
return {
  name = "h100_pcie_1", summary = "one H100 PCIe", gpus_per_node = 1, device = "h100_pcie",
  source = "fla-org/flash-linear-attention, issue 32",
  price_source = "unset: no list price was looked up",
  links = {
    intra = { name = "none", bandwidth = 25e9, source = "a single device" },
    inter = { name = "none", bandwidth_per_gpu = 1e9, bandwidth_per_node = 1e9, source = "a single device" },
  },
}

--- A node of eight MI355X with eight 400 Gbit/s cards.
return {
  name = "mi355x_node",
  summary = "8x MI355X per node, Infinity Fabric, 8x 400 Gbit/s",
  source = "stas00/ml-engineering@744d01e network/README.md",
  gpus_per_node = 8,
  price_source = "unset: no public on-demand price found, 2026",
  device = "mi355x",
  host = { name = "PCIe 5 x16", bandwidth = 50e9, source = "80 % of 63 GB/s, assumed" },
  links = {
    intra = { name = "Infinity Fabric, every pair linked", bandwidth = 407e9, mesh = true,
      source = "all_reduce of 8 GiB on eight: oci-ai-incubations/oci-gpu-quickstarts amd/MI355X/README.md; 535.5 GB/s "
        .. "per GPU one way" },
    inter = { name = "8x 400 Gbit/s",
      bandwidth_per_gpu = 48e9, bandwidth_per_node = 384e9,
      source = "8x 50 GB/s, stas00/ml-engineering@744d01e network/README.md" },
  },
}

--- A node of eight Gaudi 2: 24 Ethernet ports of 100 Gbit/s each, 21 of them inside the node.
return {
  name = "gaudi2_node",
  summary = "8x Gaudi 2 per node, 21 ports of 100 Gbit/s per card inside, 3 outside",
  source = "Intel Gaudi 2 white paper (from memory)",
  gpus_per_node = 8,
  device = "gaudi2",
  price_source = "unset: no public on-demand price found, 2026",
  links = {
    intra = { name = "21x 100 Gbit/s Ethernet, every pair linked", bandwidth = 223e9, mesh = true,
      source = "85 % of 262.5 GB/s one way, assumed; three ports per pair: docs.habana.ai, Network Configuration" },
    inter = { name = "24x 100 Gbit/s Ethernet", bandwidth_per_gpu = 31.9e9, bandwidth_per_node = 255e9,
      source = "85 % of 37.5 GB/s per card, assumed" },
  },
}

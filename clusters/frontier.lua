--- Frontier, LUMI: four MI250X per node; software sees eight dies of 64 GB.
return {
  name = "frontier",
  summary = "8 dies of 4x MI250X per node, Infinity Fabric, 4x Slingshot-11",
  source = "OLCF, Frontier user guide (from memory)",
  gpus_per_node = 8,
  device = "mi250x_die",
  price_source = "unset: no public on-demand price found, 2026",
  links = {
    intra = { name = "Infinity Fabric", bandwidth = 75e9, send_bandwidth = 37.5e9,
      source = "assumed: 75 % of 50 GB/s one way per link between modules, two rings" },
    inter = { name = "4x Slingshot-11 of 200 Gbit/s", bandwidth_per_gpu = 21.2e9, bandwidth_per_node = 85e9,
      source = "85 % of 4x 25 GB/s, the share of dgx_a100; assumed" },
  },
}

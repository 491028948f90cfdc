--- Frontier, LUMI: four MI250X per node; software sees eight dies of 64 GB.
return {
  name = "frontier",
  summary = "8 dies of 4x MI250X per node, Infinity Fabric, 4x Slingshot-11",
  source = "OLCF, Frontier user guide (from memory)",
  gpus_per_node = 8,
  device = "mi250x_die",
  price_source = "unset: no public on-demand price found, 2026",
  links = {
    intra = { name = "Infinity Fabric", bandwidth = 93e9, send_bandwidth = 37.5e9,
      source = "at least the rate of rings over nodes; sends: assumed 75 % of 50 GB/s one way per link of modules" },
    inter = { name = "4x Slingshot-11 of 200 Gbit/s", bandwidth_per_gpu = 23.2e9, bandwidth_per_node = 93e9,
      source = "gathers and all_reduces of 4 GB over four such nodes reach 93 of 4x 25 GB/s: ROCm/rccl issue 1490" },
  },
}

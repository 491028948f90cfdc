--- Alps: four GH200 per node, one Slingshot-11 card each.
return {
  name = "alps",
  summary = "4x GH200-96GB per node, NVLink, 4x Slingshot-11",
  source = "CSCS, Alps (arXiv 2408.11556; from memory)",
  gpus_per_node = 4,
  device = "gh200",
  host = { name = "NVLink-C2C", bandwidth = 360e9, memory_bandwidth = 512e9, memory_bytes = 128e9,
    source = "as vista; 128 GB of LPDDR5X (arXiv 2408.11556)" },
  power = { device_watts = 610, source = "660 W of a module (eth-cscs/cscs-docs, docs/running/slurm.md) less 50 W, the "
    .. "lowest limit of its CPU; the CPU takes precedence" },
  price_source = "unset: no public on-demand price found, 2026",
  links = {
    intra = { name = "NVLink 4, every pair linked", bandwidth = 351e9, mesh = true,
      source = "78 % of 150 GB/s one way between each pair of four, the share of dgx_a100; assumed" },
    inter = { name = "4x Slingshot-11 of 200 Gbit/s", bandwidth_per_gpu = 21.2e9, bandwidth_per_node = 85e9,
      source = "85 % of 4x 25 GB/s, the share of dgx_a100; assumed" },
  },
}

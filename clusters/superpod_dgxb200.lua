--- DGX SuperPOD of DGX B200: scalable units of 32 nodes, rail-optimised, a full fat tree above them.
local architecture = "NVIDIA DGX SuperPOD reference architecture, DGX B200: as many cables from leaf to spine and from "
  .. "spine to core as from node to leaf"
local card = "8x NDR400 per node, as dgx_b200; "

return {
  name = "superpod_dgxb200",
  summary = "16,384x B200-SXM-180GB in scalable units of 32 nodes, full fat tree of NDR400 InfiniBand",
  source = architecture,
  device = "b200_sxm",
  price_source = "unset: no public on-demand price, 2026",
  host = { name = "PCIe 5 x16", bandwidth = 50e9,
    memory_bandwidth = 89.6e9, memory_bytes = 250e9,
    source = "80 % of 63 GB/s, assumed; memory as dgx_b200" },
  tiers = {
    { name = "node", size = 8, bandwidth = 845e9, ring_bandwidth = 760e9, curves = "dgx_b200",
      source = "NVLink 5 and NVSwitch, as dgx_b200" },
    { name = "scalable unit", size = 256, bandwidth = 48.2e9, rails = 8, hierarchical = true,
      source = card .. "one leaf switch a rail; " .. architecture },
    { name = "spine", size = 2048, bandwidth = 48.2e9, hierarchical = true, source = card .. architecture },
    { name = "core", size = 16384, bandwidth = 48.2e9, hierarchical = true, source = card .. architecture },
  },
}

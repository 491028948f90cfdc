--- DGX SuperPOD of DGX H100: four scalable units of 32 nodes, a leaf switch for each rail, as many cables above them.
local architecture = "NVIDIA DGX SuperPOD reference architecture, DGX H100: network fabrics, table 4"
local card = "8x NDR400 per node, as dgx_h100; "

return {
  name = "superpod_dgxh100",
  summary = "1,016x H100-SXM-80GB in scalable units of 32 nodes, leaf and spine of NDR400 InfiniBand",
  source = architecture,
  device = "h100_sxm",
  price_source = "unset: no public on-demand price, 2026",
  host = { name = "PCIe 5 x16", bandwidth = 50e9,
    memory_bandwidth = 76.8e9, memory_bytes = 250e9,
    source = "80 % of 63 GB/s, assumed; memory as dgx_h100" },
  nodes = 127, -- the fabric manager has one place
  tiers = {
    { name = "node", size = 8, bandwidth = 480e9, send_bandwidth = 396.4e9, ring_bandwidth = 370e9, curves = "dgx_h100",
      source = "NVLink 4 and NVSwitch, as dgx_h100" },
    { name = "scalable unit", size = 256, bandwidth = 48.2e9, rails = 8, hierarchical = true,
      source = card .. "one leaf switch a rail; " .. architecture },
    { name = "spine", size = 1024, bandwidth = 48.2e9, hierarchical = true, source = card .. architecture },
  },
}

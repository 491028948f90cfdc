--- The RoCE cluster of Llama 3: 24,576 H100 in racks of two nodes, pods of 192 racks, 7:1 oversubscribed between pods.
local paper = "Grattafiori et al. 2024 (arXiv 2407.21783), section 3.3.1"
local card = "400 Gbit/s per GPU, " .. paper
  .. ", at 96 % of the line rate, as vista's samples of one NDR card (assumed for RoCE)"

return {
  name = "llama3_24k",
  summary = "24,576x H100-SXM-80GB in racks, pods and one Clos network, 400 Gbit/s RoCE per GPU",
  source = paper,
  device = "h100_sxm",
  price_source = "unset: not sold",
  failures = { per_device_day = 4.74e-4, restart_seconds = 600,
    source = "419 unexpected interruptions in 54 days of 16,384 H100 (arXiv 2407.21783, 3.3.4); restarts assumed" },
  tiers = {
    { name = "node", size = 8, bandwidth = 480e9, send_bandwidth = 396.4e9, ring_bandwidth = 370e9, curves = "dgx_h100",
      source = "NVLink 4 and NVSwitch, as dgx_h100" },
    { name = "rack", size = 16, bandwidth = 48.2e9, hierarchical = true,
      source = "two servers on one switch; " .. card },
    { name = "pod", size = 3072, bandwidth = 48.2e9, hierarchical = true,
      source = "192 racks, full bisection; " .. card },
    { name = "aggregation", size = 24576, bandwidth = 48.2e9, oversubscription = 7, hierarchical = true,
      source = "eight pods, 1:7 oversubscribed; " .. card },
  },
}

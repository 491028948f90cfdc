--- Chips of the simple model: 8-bit FLOP/s, memory and network bytes/s, memory bytes. Source of the rates: the public
-- ml_par_sim programs; memory sizes: vendors' datasheets. A "pod" is 64 chips used as one; the two versions differ in
-- its network rate.
return {
  { name = "H100", flops = 1979e12, memory = 3.35e12, network = 900e9, capacity = 80e9 },
  { name = "A100_40GB", flops = 624e12, memory = 1555e9, network = 600e9, capacity = 40e9 },
  { name = "H100_x64_pod", flops = 64 * 1979e12, memory = 64 * 3.35e12, network = 1e9, capacity = 64 * 80e9,
    readme_network = 12.5e9 },
  { name = "RTX4090", flops = 165.16e12, memory = 1008e9, network = 10e9, capacity = 24e9, head_only = true },
}

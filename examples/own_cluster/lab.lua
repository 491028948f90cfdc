--- A cluster of your own: two nodes of four A100-40GB over 100 Gb/s Ethernet. Operators are those of the nearest
--- calibrated device, perlmutter's A100-80GB, scaled by this card's rates.
return {
  name = "lab",
  summary = "4x A100-SXM4-40GB per node, 100 GbE",
  source = "NVIDIA A100 datasheet",
  gpus_per_node = 4,
  nodes = 2,
  price_per_gpu_hour = 1.1,
  device = {
    name = "A100-SXM4-40GB", source = "NVIDIA A100 datasheet", multiprocessors = 108,
    peak_flops = { fp32 = 19.5e12, fp16 = 312e12, bf16 = 312e12 }, -- FLOP/s, dense
    memory_bytes = 40e9, memory_bandwidth = 1.555e12,              -- bytes, bytes/s
  },
  links = {
    intra = { bandwidth = 214e9, source = "nccl-tests all_reduce bus bandwidth of four A100 (perlmutter)" },
    inter = { bandwidth_per_gpu = 10.6e9, bandwidth_per_node = 10.6e9, source = "100 Gb/s at 85 %" },
  },
  profile = { base = "perlmutter" },
}

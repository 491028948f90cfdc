--- GB200 NVL72: 72 GPUs in one NVLink domain, one 400 Gbit/s card each.
return {
  name = "gb200_nvl72",
  summary = "72x GB200 in one NVLink domain, 400 Gbit/s InfiniBand per GPU",
  source = "stas00/ml-engineering@744d01e network/README.md",
  gpus_per_node = 72, allotment = "gb200_nvl72_64",
  price_per_gpu_hour = 10.50,
  price_source = "CoreWeave GB200 NVL72, on demand, North America, 20 September 2026: 42 $/h for four GPUs "
    .. "(transcribed in api-evangelist/coreweave@27bcc25 plans)",
  device = "gb200",
  host = { name = "NVLink-C2C", bandwidth = 205e9, memory_bandwidth = 256e9, memory_bytes = 236e9,
    source = "assumed: 80 % of a Grace CPU's memory, 512 GB/s for two GPUs; 17 TB for 72 (GB200 NVL72's datasheet)" },
  links = {
    intra = { name = "NVLink 5 and NVSwitch", bandwidth = 845e9, ring_bandwidth = 760e9,
      source = "all_reduce on 8 B200: stas00/ml-engineering@744d01e network/README.md"
        .. "; rings: NVIDIA/nccl issue 2035",
      curves = "dgx_b200" },
    inter = { name = "InfiniBand NDR400, one card per GPU", hierarchical = true,
      bandwidth_per_gpu = 48e9, bandwidth_per_node = 3456e9,
      source = "96 % of 50 GB/s per GPU, the share of NDR; stas00/ml-engineering@744d01e network/README.md" },
  },
}

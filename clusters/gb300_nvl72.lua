--- GB300 NVL72: 72 GPUs in one NVLink domain, one 800 Gbit/s card each.
return {
  name = "gb300_nvl72",
  summary = "72x GB300 in one NVLink domain, 800 Gbit/s InfiniBand per GPU",
  source = "stas00/ml-engineering@744d01e network/README.md",
  gpus_per_node = 72, allotment = "gb300_nvl72_64",
  price_source = "unset: CoreWeave states none, 20 September 2026 (api-evangelist/coreweave@27bcc25 plans)",
  device = "gb300",
  host = { name = "NVLink-C2C", bandwidth = 205e9, memory_bandwidth = 256e9, memory_bytes = 236e9,
    source = "assumed: 80 % of a Grace CPU's memory, 512 GB/s for two GPUs; 17 TB for 72 (GB200 NVL72's datasheet)" },
  links = {
    intra = { name = "NVLink 5 and NVSwitch", bandwidth = 845e9, ring_bandwidth = 760e9,
      source = "all_reduce on 8 B200: stas00/ml-engineering@744d01e network/README.md"
        .. "; rings: NVIDIA/nccl issue 2035",
      curves = "dgx_b200" },
    inter = { name = "InfiniBand XDR800, one card per GPU", hierarchical = true,
      bandwidth_per_gpu = 96e9, bandwidth_per_node = 6912e9,
      source = "96 % of 100 GB/s per GPU, the share of NDR; stas00/ml-engineering@744d01e network/README.md" },
  },
}

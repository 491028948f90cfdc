--- GB300 NVL72, allotted in 64 of the 72 GPUs of each NVLink domain, one 800 Gbit/s card each.
return {
  name = "gb300_nvl72_64",
  summary = "64 of 72 GB300 of each NVLink domain, 800 Gbit/s InfiniBand per GPU",
  source = "stas00/ml-engineering@744d01e network/README.md; segments of 16 trays of four GPUs: NVIDIA's Slurm scripts "
    .. "of Megatron-LM (--segment=16), CoreWeave's documentation of block scheduling",
  gpus_per_node = 64,
  price_source = "unset: CoreWeave states none, 20 September 2026 (api-evangelist/coreweave@27bcc25 plans)",
  device = "gb300",
  links = {
    intra = { name = "NVLink 5 and NVSwitch", bandwidth = 845e9, ring_bandwidth = 760e9,
      source = "all_reduce on 8 B200: stas00/ml-engineering@744d01e network/README.md"
        .. "; rings: NVIDIA/nccl issue 2035",
      curves = "dgx_b200" },
    inter = { name = "InfiniBand XDR800, one card per GPU", hierarchical = true,
      bandwidth_per_gpu = 96e9, bandwidth_per_node = 6144e9,
      source = "96 % of 100 GB/s per GPU, the share of NDR; stas00/ml-engineering@744d01e network/README.md" },
  },
}

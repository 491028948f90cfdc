--- GB200 NVL72, allotted in 64 of the 72 GPUs of each NVLink domain, one 400 Gbit/s card each.
return {
  name = "gb200_nvl72_64",
  summary = "64 of 72 GB200 of each NVLink domain, 400 Gbit/s InfiniBand per GPU",
  source = "stas00/ml-engineering@744d01e network/README.md; segments of 16 trays of four GPUs: NVIDIA's Slurm scripts "
    .. "of Megatron-LM (--segment=16), CoreWeave's documentation of block scheduling",
  gpus_per_node = 64,
  price_per_gpu_hour = 10.50,
  price_source = "CoreWeave GB200 NVL72, on demand, North America, 20 September 2026: 42 $/h for four GPUs "
    .. "(transcribed in api-evangelist/coreweave@27bcc25 plans)",
  device = "gb200",
  links = {
    intra = { name = "NVLink 5 and NVSwitch", bandwidth = 845e9, ring_bandwidth = 760e9,
      source = "all_reduce on 8 B200: stas00/ml-engineering@744d01e network/README.md"
        .. "; rings: NVIDIA/nccl issue 2035",
      curves = "dgx_b200" },
    inter = { name = "InfiniBand NDR400, one card per GPU", hierarchical = true,
      bandwidth_per_gpu = 48e9, bandwidth_per_node = 3072e9,
      source = "96 % of 50 GB/s per GPU, the share of NDR; stas00/ml-engineering@744d01e network/README.md" },
  },
}

--- A node of eight MI300X with eight 400 Gbit/s cards.
return {
  name = "mi300x_node",
  summary = "8x MI300X per node, Infinity Fabric, 8x 400 Gbit/s",
  source = "stas00/ml-engineering@744d01e network/README.md",
  gpus_per_node = 8,
  device = "mi300x",
  host = { name = "PCIe 5 x16", bandwidth = 50e9, source = "80 % of 63 GB/s, assumed" },
  price_per_gpu_hour = 6.00,
  price_source = "Azure and Oracle, list, 18 May 2026: 6 $ per GPU and hour",
  links = {
    intra = { name = "Infinity Fabric, every pair linked", bandwidth = 316e9, mesh = true,
      source = "all_reduce of 8 GB on eight: hisohara/ai-scripts training/01_rccl-smoketest/README.md (318 in "
        .. "rocm.blogs.amd.com, mi300x-rccl-xgmi); a link of 64 GB/s between each two GPUs, 448 GB/s per GPU" },
    inter = { name = "8x 400 Gbit/s",
      bandwidth_per_gpu = 44.7e9, bandwidth_per_node = 357e9,
      source = "8x 50 GB/s (stas00/ml-engineering@744d01e network/README.md), of which two nodes reach 357 in an "
        .. "all_reduce of 16 GB: hisohara/ai-scripts training/01_rccl-smoketest/README.md" },
  },
}

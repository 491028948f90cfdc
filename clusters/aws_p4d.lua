--- AWS p4d.24xlarge: eight A100-SXM4-40GB and 400 Gbit/s of EFA.
return {
  name = "aws_p4d",
  summary = "8x A100-SXM4-40GB per node, NVSwitch, 4x 100 Gbit/s EFA",
  source = "AWS p4d.24xlarge, product page (from memory)",
  gpus_per_node = 8,
  device = "a100_sxm_40gb",
  host = { name = "PCIe 4 x16", bandwidth = 25e9,
    memory_bandwidth = 35.2e9, memory_bytes = 154.6e9,
    source = "80 % of 31.5 GB/s, assumed; "
      .. "memory: an eighth of two Xeon 8275CL, 12 channels of DDR4-2933, 1152 GiB (EC2)" },
  price_source = "unset: no list price was looked up",
  links = {
    intra = { name = "NVLink 3 and NVSwitch", bandwidth = 234.89e9, send_bandwidth = 195e9, curves = "dgx_a100",
      source = "as dgx_a100" },
    inter = { name = "4x 100 Gbit/s EFA", bandwidth_per_gpu = 10.6e9, bandwidth_per_node = 42.5e9, latency = 164e-6,
      source = "85 % of 50 GB/s per node, the share of dgx_a100, assumed for EFA; a latency of 75 us, which a step of "
        .. "Simple has twice: aws/aws-ofi-nccl src/platform-aws.c" },
  },
}

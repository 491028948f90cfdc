--- AWS g5.48xlarge: eight A10G on PCIe 4 with 100 Gbit/s.
return {
  name = "aws_g5",
  summary = "AWS g5.48xlarge: 8x A10G per node, PCIe 4, 100 Gbit/s",
  source = "aws.amazon.com/ec2/instance-types/g5: GPUs and network; links assumed",
  gpus_per_node = 8,
  device = "a10g",
  host = { name = "PCIe 4 x16", bandwidth = 25e9, source = "80 % of 31.5 GB/s, assumed" },
  price_source = "unset: no list price was looked up",
  links = {
    intra = { name = "PCIe 4 x16", bandwidth = 20e9,
      source = "assumed: as l40s_node's bandwidth between two GPUs; groups of more GPUs may be slower" },
    inter = { name = "100 Gbit/s (EFA)", bandwidth_per_gpu = 10.6e9, bandwidth_per_node = 10.6e9,
      source = "assumed: 85 % of 12.5 GB/s" },
  },
}

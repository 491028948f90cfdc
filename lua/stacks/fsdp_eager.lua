--- PyTorch FSDP without compilation.
return {
  name = "fsdp_eager",
  summary = "PyTorch FSDP without compilation",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  overlaps_tensor = false,
  attention = "flash2", norm = "torch", cross_entropy = "torch", launch_seconds = 4e-05, exchange = 1.87,
  moe_launches = 8.7, sharded = true, stops_early = true,
  communication_share = 0.319,
}

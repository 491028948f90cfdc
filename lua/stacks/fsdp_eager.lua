--- PyTorch FSDP without compilation.
return {
  name = "fsdp_eager",
  summary = "PyTorch FSDP without compilation",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  attention = "flash2", norm = "torch", cross_entropy = "torch", launch_seconds = 40e-6, exchange = 1.77,
  moe_launches = 8.11, sharded = true, stops_early = true,
}

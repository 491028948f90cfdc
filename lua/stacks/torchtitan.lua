--- Torchtitan: FSDP2 with torch.compile.
return {
  name = "torchtitan",
  summary = "torchtitan: FSDP2 with torch.compile",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  attention = "flash2", norm = "compiled", cross_entropy = "compiled", launch_seconds = 12e-6,
  sharded = true, stops_early = true,
  communication_share = 0.319,
}

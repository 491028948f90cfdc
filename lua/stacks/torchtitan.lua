--- Torchtitan: FSDP2 with torch.compile.
return {
  name = "torchtitan",
  summary = "torchtitan: FSDP2 with torch.compile",
  source = "assumed",
  attention = "flash2", norm = "compiled", cross_entropy = "compiled", launch_seconds = 12e-6, slowdown = 1.1,
}

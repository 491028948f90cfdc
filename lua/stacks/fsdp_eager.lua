--- PyTorch FSDP without compilation.
return {
  name = "fsdp_eager",
  summary = "PyTorch FSDP without compilation",
  source = "assumed",
  attention = "flash2", norm = "torch", cross_entropy = "torch", launch_seconds = 30e-6,
  moe_launches = 25, slowdown = 1.1,
}

--- PyTorch FSDP without compilation.
return {
  name = "fsdp_eager",
  summary = "PyTorch FSDP without compilation",
  source = "assumed",
  attention = "flash2", norm = "torch", cross_entropy = "torch", launch_seconds = 30e-6,
}

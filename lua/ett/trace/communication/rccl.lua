--- AMD RCCL. Most of its kernels keep NCCL's names (found by nccl.lua); these are its own.
return {
  summary = "AMD RCCL kernels",
  source = "https://github.com/ROCm/rccl",
  patterns = { "rccl", "mscclKernel" },
}

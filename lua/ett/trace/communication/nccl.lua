--- NVIDIA NCCL: ncclKernel_*, ncclDevKernel_*, and the device rows that PyTorch names nccl:*.
return {
  summary = "NVIDIA NCCL kernels",
  source = "https://github.com/NVIDIA/nccl, src/device (kernel names)",
  patterns = { "[nN][cC][cC][lL]" },
}

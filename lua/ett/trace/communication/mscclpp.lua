--- MSCCL++ kernels.
return {
  summary = "MSCCL++ kernels",
  source = "https://github.com/microsoft/mscclpp, apps/nccl/src",
  patterns = { "mscclpp", "mscclppKernel", "executionKernel%f[^%w]" },
}

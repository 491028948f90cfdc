--- NVSHMEM collectives and puts that run as kernels of their own.
return {
  summary = "NVSHMEM kernels",
  source = "https://docs.nvidia.com/nvshmem",
  patterns = { "nvshmem" },
  kinds = { { "barrier", "barrier" }, { "sync", "barrier" }, { "put", "send_recv" }, { "get", "send_recv" } },
}

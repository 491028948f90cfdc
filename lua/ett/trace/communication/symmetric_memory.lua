--- PyTorch symmetric memory: multimem and one- or two-shot kernels.
return {
  summary = "PyTorch symmetric-memory collectives",
  source = "https://github.com/pytorch/pytorch, torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu and "
    .. "CUDASymmetricMemory.cu (barrier and signals)",
  patterns = { "multimem_", "one_shot_all_reduce", "two_shot_all_reduce", "one_shot_reduce", "two_shot_reduce_scatter",
    "symm_mem", "symmetric_memory::barrier_kernel", "symmetric_memory::put_signal_kernel",
    "symmetric_memory::wait_signal_kernel" },
  kinds = { { "barrier", "barrier" }, { "put_signal", "send" }, { "wait_signal", "recv" } },
}

--- PyTorch symmetric memory: multimem and one- or two-shot kernels.
return {
  summary = "PyTorch symmetric-memory collectives",
  source = "https://github.com/pytorch/pytorch, torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu",
  patterns = { "multimem_", "one_shot_all_reduce", "two_shot_all_reduce", "one_shot_reduce", "two_shot_reduce_scatter",
    "symm_mem" },
  kinds = { { "barrier", "barrier" } },
}

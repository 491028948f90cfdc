--- vLLM / SGLang / AITER custom all-reduce and quick-reduce.
return {
  summary = "vLLM, SGLang and AITER custom all-reduce kernels",
  source = "https://github.com/vllm-project/vllm, csrc/custom_all_reduce.cuh and csrc/quickreduce; "
    .. "https://github.com/ROCm/aiter, csrc/include/custom_all_reduce.cuh",
  patterns = { "cross_device_reduce_[12]stage", "quickreduce::", "custom_all_reduce",
    "reduce_scatter_cross_device_store" },
  kinds = { { "cross_device_reduce", "all_reduce" }, { "quickreduce", "all_reduce" } },
}

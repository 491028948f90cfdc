--- vLLM / SGLang custom all-reduce and quick-reduce.
return {
  summary = "vLLM and SGLang custom all-reduce kernels",
  source = "https://github.com/vllm-project/vllm, csrc/custom_all_reduce.cuh and csrc/quickreduce",
  patterns = { "cross_device_reduce_[12]stage", "quickreduce::", "custom_all_reduce" },
  kinds = { { "cross_device_reduce", "all_reduce" }, { "quickreduce", "all_reduce" } },
}

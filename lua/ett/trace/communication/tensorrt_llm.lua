--- TensorRT-LLM and FlashInfer custom all-reduce, also fused with a norm.
return {
  summary = "TensorRT-LLM and FlashInfer custom all-reduce kernels",
  source = "https://github.com/NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/customAllReduceKernels.cu",
  patterns = { "oneShotAllReduceKernel", "twoShotAllReduceKernel", "allreduce_fusion_kernel",
    "lamport_style_one_shot_all_reduce",
    "userbuffers_fp16_sum", "trtllm_allreduce_fusion", "moe_all_?to_?all", "moeAllToAll" },
  kinds = { { "userbuffers", "all_reduce" }, { "to_?all", "all_to_all" }, { "ToAll", "all_to_all" } },
}

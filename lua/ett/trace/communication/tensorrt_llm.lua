--- TensorRT-LLM and FlashInfer custom all-reduce, also fused with a norm.
return {
  summary = "TensorRT-LLM and FlashInfer custom all-reduce kernels",
  source = "https://github.com/NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/customAllReduceKernels.cu and "
    .. "communicationKernels (mnnvlTwoShotAllreduceKernels.cu, moeAlltoAllKernels.cu); "
    .. "https://github.com/flashinfer-ai/flashinfer, include/flashinfer/comm/trtllm_mnnvl_allreduce.cuh",
  patterns = { "oneShotAllReduceKernel", "twoShotAllReduceKernel", "oneshotAllreduceFusionKernel",
    "twoshotAllreduceKernel", "twoshot_allreduce_kernel", "allreduce_fusion_kernel",
    "lamport_style_one_shot_all_reduce", "userbuffers_fp16_sum", "trtllm_allreduce_fusion",
    "moe_all_?to_?all", "moeAllToAll", "moeA2ADispatchKernel", "moeA2ACombineKernel" },
  kinds = { { "userbuffers_fp16_sum_inplace_gpu_%l%l_rs", "reduce_scatter" }, -- of Transformer Engine, too
    { "userbuffers_fp16_sum_inplace_gpu_%l%l_ag", "all_gather" }, { "userbuffers", "all_reduce" },
    { "to_?all", "all_to_all" }, { "ToAll", "all_to_all" }, { "moeA2A", "all_to_all" } },
}

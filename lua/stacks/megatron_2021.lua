--- Megatron-LM of 2021 and 2022, Megatron-DeepSpeed: fused softmax, no flash attention.
return {
  name = "megatron_2021",
  summary = "Megatron-LM of 2021 and 2022, Megatron-DeepSpeed: fused softmax, no flash attention",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  attention = "flash1", norm = "fused", cross_entropy = "megatron", launch_seconds = 70.3e-6,
}

--- Megatron-LM with fully sharded data parallelism (Megatron FSDP).
return {
  name = "megatron_fsdp",
  summary = "Megatron-LM with fully sharded data parallelism",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  attention = "cudnn", norm = "fused", cross_entropy = "fused", launch_seconds = 43.3e-6,
  exchange = 1.78, moe_launches = 7.77,
  sharded = true,
}

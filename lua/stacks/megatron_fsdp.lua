--- Megatron-LM with fully sharded data parallelism (Megatron FSDP).
return {
  name = "megatron_fsdp",
  summary = "Megatron-LM with fully sharded data parallelism",
  source = "assumed",
  attention = "cudnn", norm = "fused", cross_entropy = "fused", launch_seconds = 45e-6, moe_launches = 25,
  slowdown = 1.1,
}

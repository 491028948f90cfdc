--- Megatron-LM with fully sharded data parallelism (Megatron FSDP).
return {
  name = "megatron_fsdp",
  summary = "Megatron-LM with fully sharded data parallelism",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  attention = "cudnn", grouped = "streams", norm = "fused", cross_entropy = "fused",
  launch_seconds = 44.1e-6, exchange = 1.77, moe_launches = 8.11, expert_seconds = 25e-6,
  -- Split by expert, added in fp32, joined and cast: 64 bytes instead of 6 (experts.py, TEGroupedMLP._apply_bias).
  expert_bias = 10.7,
  sharded = true,
}

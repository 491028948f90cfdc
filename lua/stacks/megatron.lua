--- Megatron-LM with Transformer Engine: cuDNN attention, fused norms and activations.
return {
  name = "megatron",
  summary = "Megatron-LM with Transformer Engine: cuDNN attention, fused norms and activations",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  attention = "cudnn", grouped = "streams", norm = "fused", cross_entropy = "fused",
  launch_seconds = 44.1e-6, exchange = 1.77, moe_launches = 8.11, expert_seconds = 25e-6,
  -- Split by expert, added in fp32, joined and cast: 64 bytes instead of 6 (experts.py, TEGroupedMLP._apply_bias).
  expert_bias = 10.7,
  cached_gradients = true,
  workspace_bytes = 67.2e6, -- of PyTorch and of Transformer Engine, 32 MiB each
}

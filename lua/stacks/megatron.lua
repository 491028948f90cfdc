--- Megatron-LM with Transformer Engine: cuDNN attention, fused norms and activations.
return {
  name = "megatron",
  summary = "Megatron-LM with Transformer Engine: cuDNN attention, fused norms and activations",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  attention = "cudnn", grouped = "streams", norm = "fused", cross_entropy = "fused",
  quantised_gathers = true, -- Transformer Engine quantises before it gathers
  launch_seconds = 7.66e-05, exchange = 1.86, moe_launches = 7.93, expert_seconds = 1.56e-05,
  -- Split by expert, added in fp32, joined and cast: 64 bytes instead of 6 (experts.py, TEGroupedMLP._apply_bias).
  expert_bias = 10.7,
  cached_gradients = true,
  workspace_bytes = 67.2e6, -- of PyTorch and of Transformer Engine, 32 MiB each
  communication_share = 0.334,
}

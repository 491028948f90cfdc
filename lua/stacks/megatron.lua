--- Megatron-LM with Transformer Engine: cuDNN attention, fused norms and activations.
return {
  name = "megatron",
  summary = "Megatron-LM with Transformer Engine: cuDNN attention, fused norms and activations",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  attention = "cudnn", norm = "fused", cross_entropy = "fused", launch_seconds = 43.3e-6,
  exchange = 1.78, moe_launches = 7.77, cached_gradients = true,
  workspace_bytes = 67.2e6, -- of PyTorch and of Transformer Engine, 32 MiB each
}

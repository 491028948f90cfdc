--- Megatron-LM with Transformer Engine: cuDNN attention, fused norms and activations.
return {
  name = "megatron",
  summary = "Megatron-LM with Transformer Engine: cuDNN attention, fused norms and activations",
  source = "assumed",
  attention = "cudnn", norm = "fused", cross_entropy = "fused", launch_seconds = 45e-6, moe_launches = 25,
}

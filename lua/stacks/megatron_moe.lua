--- Megatron-LM for mixtures of experts: DeepEP or HybridEP dispatch, grouped products.
return {
  name = "megatron_moe",
  summary = "Megatron-LM for mixtures of experts: DeepEP or HybridEP dispatch, grouped products",
  source = "assumed",
  attention = "cudnn", norm = "fused", cross_entropy = "fused", launch_seconds = 45e-6, moe_launches = 25,
}

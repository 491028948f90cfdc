--- Megatron-LM with fully sharded data parallelism (Megatron FSDP).
return {
  name = "megatron_fsdp",
  summary = "Megatron-LM with fully sharded data parallelism",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  attention = "cudnn", grouped = "streams", norm = "fused", cross_entropy = "fused",
  quantised_gathers = true, -- Transformer Engine quantises before it gathers
  launch_seconds = 6.3e-05, exchange = 1.87, moe_launches = 8.7, expert_seconds = 1.51e-05,
  -- Split by expert, added in fp32, concatenated and cast: 28 bytes a value. Backward 40: casts, two products, two sums
  -- and a concatenation. Fused: 6 (experts.py, _apply_bias).
  expert_bias = 11.3,
  -- Two clamps (8 bytes a value) and a concatenation (8) before the fused activation (6). Backward: the activation
  -- (10), the weights' gradient (6), comparisons, their conjunction and selections (8 and 14), a concatenation (8).
  -- Fused: 6 and 10 (fused_bias_geglu.py, weighted_bias_quick_geglu_impl; PyTorch's clamp_backward).
  clamped_mlp = 3.67, clamped_mlp_backward = 4.6,
  -- Transformer Engine's fused rotation does not scale; unfused, each sum, product and concatenation is a kernel: 58
  -- bytes instead of 8 (rope_utils.py, apply_rotary_pos_emb).
  scaled_rope = 7.25,
  sharded = true, hides_sums = true, fused_accumulation = true, -- as in megatron.lua
  fused_bias_gradients = true, -- Transformer Engine: an epilogue of the product
  weighs_activations = true, -- experts.py, TEGroupedMLP
  communication_share = 0.319,
}

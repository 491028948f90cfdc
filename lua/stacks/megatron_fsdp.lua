--- Megatron-LM with fully sharded data parallelism (Megatron FSDP).
return {
  name = "megatron_fsdp",
  summary = "Megatron-LM with fully sharded data parallelism",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  compared = "blackwell hopper",
  overlap_sends = true, overlapped_sends = "interleaved", -- as in megatron.lua
  cp_method = "ring", pipeline_schedules = "1f1b interleaved", -- as in megatron.lua
  attention = "cudnn", other_attention = "flash2", -- as in megatron.lua
  grouped = "streams", norm = "te", cross_entropy = "fused",
  mamba = "joint", -- mamba_mixer.py, _ssm_training
  quantised_gathers = "all", -- Transformer Engine quantises before it gathers
  gathers_mxfp8 = true, -- fsdp/src/megatron_fsdp/param_and_grad_buffer.py, transpose_weight_buffer
  overlap_gradients = true, overlap_parameters = true, -- arguments.py requires both for optim_grads_params
  launch_seconds = 6.32e-05, routing_factor = 1.6, moe_launches = 9.96, expert_seconds = 1.19e-05,
  reads_counts = "beside_permute", -- as in megatron.lua
  expert_bias = 11.3, clamped_mlp = 3.67, clamped_mlp_backward = 4.6, scaled_rope = 7.25, -- as in megatron.lua
  gathers_slow = true, hides_sums = true, -- as in megatron.lua
  -- All recipes of Megatron-Bridge with Megatron FSDP turn it off (gradient_accumulation_fusion = False).
  fused_accumulation = false,
  fused_bias_gradients = true, -- Transformer Engine: an epilogue of the product
  weighs_activations = true, -- experts.py, TEGroupedMLP
  communication_share = 0.329,
}

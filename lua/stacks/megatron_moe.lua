--- Megatron-LM for mixtures of experts: DeepEP dispatch, grouped products.
return {
  name = "megatron_moe",
  summary = "Megatron-LM for mixtures of experts: DeepEP dispatch, grouped products",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  overlap_sends = true, -- arguments.py: unless --no-overlap-p2p-communication
  zero_stages = "0 1", sharding_stack = "megatron_fsdp", -- as in megatron.lua
  attention = "cudnn", grouped = "streams", norm = "fused", cross_entropy = "fused",
  mamba = "joint", -- mamba_mixer.py, _ssm_training
  quantised_gathers = true, -- Transformer Engine quantises before it gathers
  launch_seconds = 6.3e-05, exchange = 1.01, moe_launches = 8.7, expert_seconds = 1.51e-05, batch_launches = 1.42,
  expert_bias = 11.3, clamped_mlp = 3.67, clamped_mlp_backward = 4.6, scaled_rope = 7.25, -- as in megatron.lua
  hides_sums = true, -- as in megatron.lua
  fused_accumulation = true, cached_gradients = true, -- arguments.py: gradient_accumulation_fusion
  quantised_weights = "beside", -- module/base.py, get_weight_workspace: cached from the first micro-batch on
  workspace_bytes = 67.2e6, -- PyTorch and Transformer Engine, 32 MiB each
  fused_bias_gradients = true, -- Transformer Engine: an epilogue of the product
  weighs_activations = true, -- experts.py, TEGroupedMLP
  communication_share = 0.319, -- NCCL's gathers and reductions, as in megatron.lua
  exchange_communication_share = 0.15, -- 20 of 132 multiprocessors (arXiv 2412.19437, section 3.2.2)
}

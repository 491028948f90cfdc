--- Megatron-LM with Transformer Engine: cuDNN attention, fused norms and activations.
return {
  name = "megatron",
  summary = "Megatron-LM with Transformer Engine: cuDNN attention, fused norms and activations",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  compared = "ampere blackwell hopper",
  overlap_sends = true, -- arguments.py: unless --no-overlap-p2p-communication
  overlapped_sends = "interleaved", -- arguments.py: overlap_p2p_comm is set to False without virtual stages
  pipeline_schedules = "1f1b interleaved", -- pipeline_parallel/schedules.py: get_forward_backward_func
  gathers_need_reductions = true, -- arguments.py: --overlap-param-gather needs --overlap-grad-reduce
  cp_method = "ring", -- extensions/transformer_engine.py, TEDotProductAttention: cp_comm_type is p2p by default
  zero_stages = "0 1", sharding_stack = "megatron_fsdp", -- --use-distributed-optimizer, --use-megatron-fsdp
  -- Transformer Engine runs flash-attn's kernel in place of cuDNN's with NVTE_FUSED_ATTN=0 (--attention-backend flash).
  other_attention = "flash2",
  attention = "cudnn", grouped = "streams", norm = "te", cross_entropy = "fused",
  -- arguments.py: --cuda-graph-impl is none. With experts these modules can be graphs (transformer_config.py).
  other_graphs = "attn+moe_router+moe_preprocess",
  mamba = "joint", -- mamba_mixer.py, _ssm_training
  quantised_gathers = "all", -- Transformer Engine quantises before it gathers
  launch_seconds = 6.32e-05, routing_factor = 1.6, moe_launches = 9.96, expert_seconds = 1.19e-05,
  batch_launches = 1.45,
  -- token_dispatcher.py, MoEAlltoAllTokenDispatcher._maybe_dtoh_and_synchronize: copied in a stream of its own before
  -- permutation 1. The host waits for that copy alone before the all-to-all.
  reads_counts = "beside_permute",
  -- expert_bias: outputs are split by expert, added to the bias in fp32, concatenated and cast: 28 bytes a value. The
  -- backward pass moves 40: casts, two products, two sums and a concatenation. A fused kernel moves 6 (experts.py,
  -- _apply_bias).
  expert_bias = 11.3,
  -- clamped_mlp: two clamps (8 bytes a value) and a concatenation (8) run before the fused activation (6). The backward
  -- pass runs the activation (10), the weights' gradient (6), comparisons, their conjunction and selections (8 and 14),
  -- and a concatenation (8). A fused kernel moves 6, and 10 backward (fused_bias_geglu.py,
  -- weighted_bias_quick_geglu_impl; PyTorch's clamp_backward).
  clamped_mlp = 3.67, clamped_mlp_backward = 4.6,
  -- scaled_rope: Transformer Engine's fused rotation does not scale. Without it each sum, product and concatenation is
  -- a kernel: 58 bytes instead of 8 (rope_utils.py, apply_rotary_pos_emb).
  scaled_rope = 7.25,
  hides_sums = true, -- async_grad_allreduce (layers.py, LinearWithGradAccumulationAndAsyncCommunication)
  fused_accumulation = true, cached_gradients = true, -- arguments.py: gradient_accumulation_fusion
  quantised_weights = "beside", -- module/base.py, get_weight_workspace: cached from the first micro-batch on
  workspace_bytes = 67.2e6, -- PyTorch and Transformer Engine, 32 MiB each
  fused_bias_gradients = true, -- Transformer Engine: an epilogue of the product
  weighs_activations = true, -- experts.py, TEGroupedMLP
  communication_share = 0.329,
}

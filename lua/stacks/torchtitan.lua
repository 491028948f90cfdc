--- Torchtitan: FSDP2 with torch.compile.
return {
  name = "torchtitan",
  summary = "torchtitan: FSDP2 with torch.compile",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  compared = "ampere hopper",
  context_parallel = "torch", -- torch.distributed.tensor.experimental.context_parallel
  -- A compiler's graph waits for a collective where it starts it (torch/distributed/_functional_collectives.py,
  -- _maybe_wrap_tensor). In graphs of training nothing moves the wait (torch/_inductor/fx_passes/post_grad.py:
  -- reorder_for_locality, enable_overlap_scheduling). pytorch/torchtitan#3305 shows such a graph.
  overlaps_context = false,
  repeated_keys = true, -- models/llama/model.py of 2024, Attention.forward: repeat_kv
  overlap_gradients = true, overlap_parameters = true, -- fully_shard: implicit prefetching
  zero_stages = "3", -- with tensor ranks; DDP alone runs without (parallelize_llama: apply_ddp)
  attention = "sdpa", -- models/common/attention.py: sdpa_backends; in 2025 cuDNN on B200 only (torchtitan#1196)
  other_attention = "flash2", -- PyTorch before 2.11 on Hopper: pytorch/pytorch#138522, huggingface/transformers#48163
  norm = "compiled", cross_entropy = "compiled", launch_seconds = 12e-6,
  reads_counts = "before_exchange", -- expert_parallel.py, ExpertParallel._token_dispatch: splits go to the host
  gathers_slow = true, stops_early = true, master_shards = true,
  -- torch/distributed/pipelining/stage.py: backward_maybe_with_nosync; fwd_cache of forward_one_chunk
  whole_stages = true, keeps_outputs = true,
  frees_gradients = true, -- optimizer.py, zero_grad: set_to_none
  operator_policy = true, -- activation_checkpoint.py: _apply_op_sac
  keeps_head_input = true, -- parallelize_llama: ColwiseParallel of `output`, outside the compiled blocks
  keeps_inputs = true, -- torchao (float8_linear.py, matmul_with_hp_or_float8_args)
  -- Only with a scale per tensor (parallelize_llama: enable_float8_tensorwise_tp); gradients too (torchao,
  -- float8_tensor_parallel.py, NoopFwToFloat8BwDynamic).
  quantised_gathers = "fp8",
  copies_sequence = true, -- torchtitan#437
  gathers_once = true, -- models/llama4/infra/parallelize.py: apply_moe_ep_tp
  -- torch/_inductor/fx_passes/micro_pipeline_tp.py: _find_producer_matmul, _find_consumer_matmuls
  overlaps_direct = true,
  communication_share = 0.329,
  -- FSDP2 adds 0.5 to 0.7 ms of the host to the forward pass of a layer, and 0.6 to 0.9 ms to its backward pass. This
  -- was measured on a CPU with PyTorch 2.14, 1 to 9 weights a layer and messages that take no time. On a GPU the hook
  -- before a forward pass takes 1 ms (pytorch/pytorch#173680, PyTorch 2.10). Here seven weights of a layer share it.
  gather_seconds = 9e-05,
  gathers_layers = true, -- parallelize_llama: apply_ac wraps a layer before apply_fsdp does
}

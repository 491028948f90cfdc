--- PyTorch FSDP without compilation.
return {
  name = "fsdp_eager",
  summary = "PyTorch FSDP without compilation",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  compared = "hopper",
  overlaps_tensor = false,
  context_parallel = "torch", -- torch.distributed.tensor.experimental.context_parallel
  repeated_keys = true, -- torchtune, modules/attention.py, MultiHeadAttention.forward; torchtitan of 2024, repeat_kv
  overlap_gradients = true, overlap_parameters = true, -- FullyShardedDataParallel: prefetching
  -- NO_SHARD, FULL_SHARD. SHARD_GRAD_OP shards the weights, too: it gathers them for the forward pass and frees them
  -- after the backward pass (torch/distributed/fsdp/api.py), as zero=3 reshard=false.
  zero_stages = "0 3",
  attention = "flash2", norm = "torch", cross_entropy = "torch", launch_seconds = 4e-05, routing_factor = 1.6,
  moe_launches = 9.96, gathers_slow = true, stops_early = true, master_shards = true,
  reads_counts = "before_permute", -- NVIDIA-NeMo/Automodel#3931: DeepEP and HybridEP
  -- torch/distributed/pipelining/stage.py: backward_maybe_with_nosync; fwd_cache of forward_one_chunk
  whole_stages = true, keeps_outputs = true,
  frees_gradients = true, -- optimizer.py, zero_grad: set_to_none
  -- The root module holds all weights outside the wrapped layers and does not reshard after the forward pass
  -- (fsdp/_runtime_utils.py, _post_forward_reshard; fsdp/_fully_shard/_fsdp_state.py, _lazy_init).
  whole_ends = true,
  communication_share = 0.329,
  -- Llama's apply_rotary_emb (cast to fp32, complex product, cast) moves 20 bytes an element; a fused kernel moves 4.
  -- silu and the product with `up` are two kernels: 10 bytes an element instead of 6; backward 18 instead of 10.
  rope = 5.0, gated_mlp = 1.75, adaptive_norm = 2.0, -- adaptive_norm: as in transformers.lua
  separate_projections = true, -- torchtune, models/llama3/_component_builders.py: q_proj and others, w1, w3, adapters
}

--- Torchtitan without compilation.
return {
  name = "torchtitan_eager",
  summary = "torchtitan without compilation",
  source = "as torchtitan.lua; host costs and kernels of the MLP and the rotation as in fsdp_eager.lua",
  overlaps_tensor = false, -- enable_async_tensor_parallel needs torch.compile (maybe_enable_async_tp)
  context_parallel = "torch", repeated_keys = true,
  overlap_gradients = true, overlap_parameters = true,
  zero_stages = "3",
  attention = "sdpa",
  norm = "torch", cross_entropy = "torch", launch_seconds = 4e-05, exchange = 1.87, moe_launches = 9.72,
  sharded = true, stops_early = true, master_shards = true,
  whole_stages = true, keeps_outputs = true,
  half_products = true,
  keeps_head_input = true,
  keeps_inputs = true,
  communication_share = 0.329,
  rope = 5.0, gated_mlp = 1.75,
}

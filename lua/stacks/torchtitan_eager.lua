--- Torchtitan without compilation.
return {
  name = "torchtitan_eager",
  summary = "torchtitan without compilation",
  source = "as torchtitan.lua; host costs and kernels of the MLP and the rotation as in fsdp_eager.lua",
  compared = "hopper",
  base = "torchtitan",
  overlaps_context = true, -- AsyncCollectiveTensor waits at its first use
  overlaps_tensor = false, -- enable_async_tensor_parallel needs torch.compile (maybe_enable_async_tp)
  norm = "torch", cross_entropy = "torch", launch_seconds = 4e-05, routing_factor = 1.6, moe_launches = 9.96,
  rope = 5.0, gated_mlp = 1.75,
}

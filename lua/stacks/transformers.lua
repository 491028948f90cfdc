--- Hugging Face's Transformers without compilation, under DeepSpeed, FSDP or alone.
return {
  name = "transformers",
  summary = "Hugging Face's Transformers without compilation, under DeepSpeed, FSDP or alone",
  source = "bytes counted in modeling_llama.py; host costs as in fsdp_eager.lua",
  overlaps_tensor = false,
  overlapped_gathers = "3", -- as in megatron_deepspeed.lua
  context_parallel = "torch", -- Accelerate's TorchContextParallelConfig
  attention = "flash2", norm = "composite", cross_entropy = "torch", launch_seconds = 4e-05, routing_factor = 1.6,
  moe_launches = 9.96, gathers_slow = true, stops_early = true,
  communication_share = 0.329,
  -- q * cos + rotate_half(q) * sin moves 20 bytes an element forward (products 8, negation and cat 6, sum 6), and 30
  -- backward (products 8, negation 2, gradients of two slices 8, sums 12); one kernel moves 4 and 4.
  rope = 6.25,
  gated_mlp = 1.75, -- silu and product: 10 bytes an element instead of 6; backward 18 instead of 10
}

--- Hugging Face's Transformers without compilation, under DeepSpeed, FSDP or alone.
return {
  name = "transformers",
  summary = "Hugging Face's Transformers without compilation, under DeepSpeed, FSDP or alone",
  source = "bytes counted in modeling_llama.py; host costs as in fsdp_eager.lua, TransformerEngine#2053, Qwen3#736",
  overlaps_tensor = false, pipeline_schedules = "none", -- trainer.py: no pipeline stages
  overlapped_gathers = "3", -- as in megatron_deepspeed.lua
  context_parallel = "torch", -- Accelerate's TorchContextParallelConfig
  -- attn_implementation="sdpa" with a mask, as for padded batches: PyTorch's memory-efficient kernel.
  other_attention = "efficient",
  attention = "flash2", norm = "composite", cross_entropy = "torch", launch_seconds = 4e-05, routing_factor = 1.6,
  moe_launches = 9.96, gathers_slow = true, stops_early = true,
  communication_share = 0.329,
  -- Without ZeRO, Accelerate wraps the model in PyTorch's DistributedDataParallel (accelerator.py, prepare_model), with
  -- gradient_as_bucket_view=False (dataclasses.py, DistributedDataParallelKwargs).
  copies_gradients = true,
  -- Transformers 4, modeling_qwen3_moe.py and others: each expert has modules of its own. A loop reads the positions of
  -- an expert's tokens (torch.where), so the host cannot run ahead. It runs 12 operators for each expert: torch.where,
  -- four that index, three products, an activation and three others. One takes 13.5 us (torch.nn.Linear on Xeon 8480C,
  -- NVIDIA/TransformerEngine#2053). Half of them count for each of the two products here.
  grouped = "loop", expert_seconds = 8.1e-05, reads_counts = "before_permute",
  -- DeepSpeed, partitioned_param_coordinator.py: hooks of each module gather its weights and release them. LoRA of
  -- Qwen2-7B took 1.26 s for 1600 gathers of short sequences on eight H100 (QwenLM/Qwen3#736; LoRA of rank 64 and
  -- recomputation by finetune.sh). That is 0.79 ms, of which a tenth is launches of the modules themselves.
  gather_seconds = 7e-04,
  -- q * cos + rotate_half(q) * sin moves 20 bytes an element forward (products 8, negation and cat 6, sum 6), and 30
  -- backward (products 8, negation 2, gradients of two slices 8, sums 12); one kernel moves 4 and 4.
  rope = 6.25,
  gated_mlp = 1.75, -- silu and product: 10 bytes an element instead of 6; backward 18 instead of 10
  -- As in Open-Sora, models/layers/blocks.py: product and sum of a modulation move 8 bytes an element instead of 4,
  -- those of a gate 10 instead of 6. Backward, sums over tokens read the products again: 14 and 12 instead of 6.
  adaptive_norm = 2.0,
  -- modeling_llama.py: q_proj, k_proj, v_proj, gate_proj, up_proj; peft/tuners/lora/layer.py: adapters of each module
  separate_projections = true,
}

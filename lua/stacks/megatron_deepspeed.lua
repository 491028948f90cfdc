--- Megatron-DeepSpeed of 2022 (BLOOM): Megatron's kernels, DeepSpeed's pipeline engine and optimizer.
return {
  name = "megatron_deepspeed",
  summary = "Megatron-DeepSpeed of 2022: Megatron's kernels, DeepSpeed's pipeline engine and optimizer",
  source = "host costs and kernels assumed",
  compared = "ampere",
  overlaps_tensor = false,
  overlaps_pipelines = false, -- PipelineEngine: enable_backward_allreduce; _exec_reduce_grads follows the last pass
  overlapped_gathers = "3", -- stage_1_and_2.py, step: all_gather_dp_groups follows the update
  serial_sends = true, -- pipe/p2p.py: send without async_op
  scatter_sends = true, -- pipe/engine.py: is_pipe_partitioned
  -- pipe/engine.py: PipelineEngine refuses ZeRO 2 and 3; pipe/schedule.py: TrainSchedule
  pipeline_zero_stages = "0 1", pipeline_schedules = "1f1b",
  attention = "flash1", norm = "fused", cross_entropy = "megatron", launch_seconds = 60e-6,
  tensor_core_heads = "aligned", -- as BLOOM's steps show (profile/device_times.lua)
  -- CUDA 11.1 loads every kernel of PyTorch: 1687 MiB (pytorch/pytorch#55277). NCCL 2.10 connects rings and trees at
  -- once: 688 MiB a communicator (NVIDIA/nccl#964).
  context_bytes = 1.77e9, communicator_bytes = 0.72e9,
  -- megatron/model: apply_rotary_pos_emb (rotary_pos_embedding.py) and swiglu (transformer.py, ParallelMLP) consist of
  -- single operators, as in transformers.lua.
  rope = 6.25, gated_mlp = 1.75,
  -- moe/sharded_moe.py, MOELayer.forward: einsums with masks SEC of all tokens of a rank; without Tutel.
  one_hot_experts = "micro_batch",
  keeps_gradients = true, -- BF16_Optimizer
  -- Gradients are flattened, scaled and copied back in 16 bits (engine.py, allreduce_and_copy: 12 bytes each); cast one
  -- by one and concatenated (14); and summed in fp32 to find overflows (10, of which in_step.update_bytes has 8; both
  -- in fused_optimizer.py).
  gradient_copy_bytes = 28,
  keeps_outputs = true, -- PipelineEngine's pipe_buffers["outputs"]
  workspace_bytes = 1.03e9, -- a bucket of reduce_bucket_size = 5e8 16-bit gradients, workspaces of libraries
  communication_share = 0.329,
}

--- Megatron-DeepSpeed of 2022 (BLOOM): Megatron's kernels, DeepSpeed's pipeline engine and optimizer.
return {
  name = "megatron_deepspeed",
  summary = "Megatron-DeepSpeed of 2022: Megatron's kernels, DeepSpeed's pipeline engine and optimizer",
  source = "host costs and kernels assumed",
  overlaps_tensor = false,
  attention = "flash1", norm = "fused", cross_entropy = "megatron", launch_seconds = 60e-6,
  -- CUDA 11.1 loads every kernel of PyTorch: 1687 MiB (pytorch/pytorch#55277). NCCL 2.10 connects rings and trees at
  -- once: 688 MiB a communicator (NVIDIA/nccl#964).
  context_bytes = 1.77e9, communicator_bytes = 0.72e9,
  keeps_gradients = true, -- BF16_Optimizer
  keeps_outputs = true, -- PipelineEngine's pipe_buffers["outputs"]
  workspace_bytes = 1.03e9, -- a bucket of reduce_bucket_size = 5e8 16-bit gradients, workspaces of libraries
  communication_share = 0.333,
}

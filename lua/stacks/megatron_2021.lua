--- Megatron-LM of 2021 and 2022: fused softmax, no flash attention.
return {
  name = "megatron_2021",
  summary = "Megatron-LM of 2021 and 2022: fused softmax, no flash attention",
  source = "host costs and kernels assumed",
  compared = "ampere",
  overlaps_tensor = false,
  zero_stages = "0 1",
  pipeline_schedules = "1f1b interleaved", -- megatron/schedules.py: get_forward_backward_func
  attention = "flash1", norm = "fused", cross_entropy = "megatron", launch_seconds = 60e-6,
  tensor_core_heads = "aligned", -- as BLOOM's steps show (profile/device_times.lua)
  -- CUDA 11.1 loads every kernel of PyTorch: 1687 MiB (pytorch/pytorch#55277). NCCL 2.10 connects rings and trees at
  -- once: 688 MiB a communicator (NVIDIA/nccl#964).
  context_bytes = 1.77e9, communicator_bytes = 0.72e9,
  gradient_copy_bytes = 6, -- 16-bit gradients are cast for the update (optimizer.py, _copy_model_grads_to_main_grads)
  communication_share = 0.329,
}

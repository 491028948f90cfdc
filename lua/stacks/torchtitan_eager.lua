--- Torchtitan without compilation.
return {
  name = "torchtitan_eager",
  summary = "torchtitan without compilation",
  source = "as torchtitan.lua; launches, with FSDP's hooks, kernels of the MLP and the rotation as in fsdp_eager.lua",
  compared = "hopper",
  base = "torchtitan",
  overlaps_context = true, -- AsyncCollectiveTensor waits at its first use
  overlaps_tensor = false, -- enable_async_tensor_parallel needs torch.compile (maybe_enable_async_tp)
  norm = "torch", cross_entropy = "torch", launch_seconds = 4e-05, moe_launches = 9.96,
  combine = "scatter_add", -- models/common/token_dispatcher.py, combine
  rope = 5.0, gated_mlp = 1.75, adaptive_norm = 2.0,
  gather_seconds = 0, -- launch_seconds is fitted on published steps of FSDP, whose hooks it contains
  -- Weights of tensor-parallel ranks are DTensors (models/llama3/infra/parallelize.py, apply_tp). Layers of Llama and
  -- of Qwen3 were measured on a CPU, on one of four ranks whose messages take no time, with tiny tensors. Both passes
  -- of a layer took 1.1 to 2.0 ms without DTensor, and 9.9 to 16.5 ms with it. Six operators of Llama's layer have
  -- weights, and eight of Qwen3's. If they alone are slower, each of their launches takes 10 to 18 times as long.
  -- PyTorch 2.14 has a dispatcher in C++ (pytorch/pytorch#167051): a sum takes 11 us, with 2.6 it takes 30. But its
  -- conversions and redistributions are in Python, so the layers take as long as with 2.6.
  tensor_launches = 14,
  separate_projections = true, -- models/llama3/model.py: wq, wk, wv, w1, w3
}

--- Kernels in a step against kernels alone: rates and factors that no table of single kernels holds.
local in_step = {}

--- Time of a large product in a step over its time in a table, by generation and data type. Tables are short bursts.
--- Products that run for a second are slower: bf16 by 11 to 17 % on H200 and 12 to 15 % on B200, fp8 by 0 to 5 %
--- (aiconfigurator, gemm_sustained against gemm).
in_step.products = {
  ampere = { bf16 = 1.13, other = 1.03 }, hopper = { bf16 = 1.13, other = 1.03 },
  blackwell = { bf16 = 1.13, other = 1.03 }, other = { bf16 = 1.13, other = 1.03 },
}

--- Share of the memory bandwidth that norms reach: H200, norm_training, 8192 x 8192 bf16 (cuDNN, PyTorch,
--- torch.compile).
in_step.norm_share = { fused = { forward = 0.79, backward = 0.73 }, torch = { forward = 0.55, backward = 0.32 },
  compiled = { forward = 0.87, backward = 0.36 } }

--- The same of other streaming kernels; assumed.
in_step.stream_share = 0.80

--- Times of an attention kernel over those of the newest fused one, forward and backward, by generation of the device.
--- FlashAttention 2 and 3 on H100, 1 and 2 on A100: Dao 2023 (arXiv 2307.08691), Shah et al. 2024 (arXiv 2407.08608),
--- causal, head dimension 128.
in_step.attention = {
  cudnn = {}, flash2 = { hopper = { 1.75, 1.55 } },
  flash1 = { ampere = { 1.7, 1.45 }, hopper = { 2.7, 2.2 } },
  flash1_triton = { ampere = { 1.5, 1.7 }, hopper = { 2.5, 2.5 } },
}

--- Bytes that a cross entropy moves over those of a fused one; assumed. Unfused, logits are cast to fp32 and their
--- logarithms are kept.
in_step.cross_entropy = { fused = 1.0, compiled = 1.5, torch = 3.0 }

return in_step

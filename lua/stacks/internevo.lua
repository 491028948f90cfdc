--- InternEvo of 2023: flash-attn 1.0.5, Apex's norms.
return {
  name = "internevo",
  summary = "InternEvo of 2023: FlashAttention 1, norms of inputs cast to fp32",
  source = "InternLM/InternEvo: doc/en/install.md, modeling_internlm.py; host costs as of fsdp_eager",
  compared = "ampere",
  overlaps_tensor = false, hides_sums = true, -- FusedDenseFunc
  overlap_gradients = true, -- configs/7B_sft.py: overlap_sync_grad
  -- Each rank owns whole tensors and broadcasts them in one buffer, rank after rank (hybrid_zero_optim.py,
  -- _partition_param_list and broadcast_params): Wqkv, out_proj and their biases, w1, w2, w3, two norms.
  owned_tensors = 9,
  -- It runs flash-attn's loss twice, accuracy and perplexity (metrics.py): together as many bytes as PyTorch's loss.
  attention = "flash1", norm = "fused_fp32", cross_entropy = "torch", launch_seconds = 4e-05,
  communication_share = 0.329,
}

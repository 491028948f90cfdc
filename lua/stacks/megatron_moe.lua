--- Megatron-LM for mixtures of experts: DeepEP dispatch, grouped products.
return {
  name = "megatron_moe", base = "megatron",
  summary = "Megatron-LM for mixtures of experts: DeepEP dispatch, grouped products",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  compared = "hopper",
  routing_factor = 1.03,
  -- fused_a2a.py: FusedDispatch of DeepEP waits for the device, and HybridEPDispatch without num_permuted_tokens. Their
  -- backward passes do not.
  reads_counts = "before_permute",
  deduplicate_tokens = true, -- DeepEP, get_dispatch_layout: is_token_in_rank
  exchange_communication_share = 0.15, -- 20 of 132 multiprocessors (arXiv 2412.19437, section 3.2.2)
}

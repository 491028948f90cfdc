--- Megatron-LM for mixtures of experts with HybridEP dispatch.
return {
  name = "megatron_hybridep", base = "megatron_moe",
  summary = "Megatron-LM for mixtures of experts: HybridEP dispatch, grouped products",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  compared = "blackwell hopper",
  -- 576 to 715 of 845 GB/s: 8 to 36 ranks of GB200, kernels alone (DeepEP, docs/README_Hybrid-EP.md).
  exchange_share = 0.75,
  -- With --moe-expert-rank-capacity-factor the step can be one graph (token_dispatcher.py, _HybridEPManager).
  other_graphs = "attn+moe_router+moe_preprocess step",
}

--- Megatron-Bridge's performance recipes for mixtures of experts: HybridEP dispatch, CUDA graphs, weights in fp8.
return {
  name = "megatron_bridge", base = "megatron_hybridep",
  summary = "Megatron-Bridge's performance recipes for mixtures of experts: HybridEP dispatch, CUDA graphs",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  compared = "blackwell hopper",
  overlap_gradients = true, overlap_parameters = true, -- comm_overlap.py and the recipes' ddp
  -- Graphs of most recipes of GB200 and GB300 from 25.11 to 26.04, and later in bf16. In mxfp8 the step is one graph
  -- since 26.06 (perf_recipes/qwen/common.py, _enable_hybridep_full_iteration_mxfp8). Some recipes have no graph of
  -- attention: that of Qwen3 30B on GB300 in bf16 and with current scaling (qwen/gb300/qwen3_moe.py). Recipes of most
  -- mixtures on H100 have no graphs.
  graphed = "attn+moe_router+moe_preprocess", other_graphs = "none moe_router+moe_preprocess step",
  quantised_weights = "only", -- mixed_precision.py: fp8_param_gather; not in nvfp4
}

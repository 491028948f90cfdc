--- Primus on AMD GPUs for mixtures of experts: DeepEP dispatch, one kernel for the experts' products.
return {
  name = "primus_moe", base = "megatron_moe",
  summary = "Primus for mixtures of experts: DeepEP dispatch, one kernel for the experts' products",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  compared = "cdna4",
  -- Primus-Turbo's kernel, or grouped_gemm's: on MI355X it reaches the rates of single products (AMD-AGI/Primus-Turbo
  -- pull request 284).
  grouped = "kernel",
  -- A step of Qwen3-30B on MI355X has 1536 exchanges of 134 MB. Dispatching takes 591 ms and combining 351, which is
  -- 219 of 407 GB/s (AMD-AGI/Primus, agent/workspace/qwen3_fp8_tw_gfx950_20261010/prompt.md).
  exchange_share = 0.54,
  other_graphs = "", -- trainer_base.yaml: enable_cuda_graph and external_cuda_graph are false
}

--- Transformer Engine: sends and receives that overlap with products over tensor ranks.
return {
  summary = "Transformer Engine userbuffers kernels",
  source = "https://github.com/NVIDIA/TransformerEngine, transformer_engine/common/comm_gemm_overlap/userbuffers",
  patterns = { "kuserbuffers_push", "kuserbuffers_pull" },
  dimension = "tp",
}

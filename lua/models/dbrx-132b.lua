--- DBRX 132B (36B active)
return {
  source = "databricks/dbrx-base (from memory)",
  architecture = "mixtral", parameters = 131596523520,
  hyper = { layers = 40, hidden = 6144, heads = 48, kv_heads = 8, ffn = 10752, vocab = 100352,
    norm = "layer_norm", norm_bias = false, experts = 16, top_k = 4 },
}

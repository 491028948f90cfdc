--- Mixtral 8x7B
return {
  source = "arXiv 2401.04088; mistralai/Mixtral-8x7B-v0.1 (from memory)",
  architecture = "mixtral", parameters = 46702792704,
  hyper = { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 32000, experts = 8,
    top_k = 2 },
}

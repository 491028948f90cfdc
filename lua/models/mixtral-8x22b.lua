--- Mixtral 8x22B
return {
  source = "mistralai/Mixtral-8x22B-v0.1 (from memory)",
  architecture = "mixtral", parameters = 140620634112,
  hyper = { layers = 56, hidden = 6144, heads = 48, kv_heads = 8, ffn = 16384, vocab = 32000, experts = 8,
    top_k = 2 },
}

--- Gemma 2B
return {
  source = "arXiv 2403.08295; google/gemma-2b (from memory)",
  architecture = "llama", parameters = 2506172416,
  hyper = { layers = 18, hidden = 2048, heads = 8, kv_heads = 1, head_dim = 256, ffn = 16384,
    vocab = 256000, activation = "geglu", tied_embeddings = true },
}

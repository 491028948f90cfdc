--- Gemma 3 27B, language model only
return {
  source = "arXiv 2503.19786; google/gemma-3-27b-pt (from memory)",
  architecture = "llama", parameters = 27009346304,
  hyper = { layers = 62, hidden = 5376, heads = 32, kv_heads = 16, head_dim = 128, ffn = 21504,
    vocab = 262208, post_norms = true, qk_norm = true, window = 1024, window_every = 6,
    activation = "geglu", tied_embeddings = true },
}

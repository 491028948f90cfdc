--- Gemma 3 12B, language model only
return {
  source = "arXiv 2503.19786; google/gemma-3-12b-pt (from memory)",
  architecture = "llama", parameters = 11766034176,
  hyper = { layers = 48, hidden = 3840, heads = 16, kv_heads = 8, head_dim = 256, ffn = 15360,
    vocab = 262208, post_norms = true, qk_norm = true, window = 1024, window_every = 6,
    activation = "geglu", tied_embeddings = true },
}

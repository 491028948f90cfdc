--- Gemma 3 1B
return {
  source = "arXiv 2503.19786; google/gemma-3-1b-pt (from memory)",
  architecture = "llama", parameters = 999885952,
  hyper = { layers = 26, hidden = 1152, heads = 4, kv_heads = 1, head_dim = 256, ffn = 6912, vocab = 262144,
    post_norms = true, qk_norm = true, window = 512, window_every = 6, activation = "geglu",
    tied_embeddings = true },
}

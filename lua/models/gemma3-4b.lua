--- Gemma 3 4B, language model only
return {
  source = "arXiv 2503.19786; google/gemma-3-4b-pt (from memory)",
  architecture = "llama", parameters = 3880263168,
  hyper = { layers = 34, hidden = 2560, heads = 8, kv_heads = 4, head_dim = 256, ffn = 10240,
    vocab = 262208, post_norms = true, qk_norm = true, window = 1024, window_every = 6,
    activation = "geglu", tied_embeddings = true },
}

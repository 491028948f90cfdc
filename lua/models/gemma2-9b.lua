--- Gemma 2 9B
return {
  source = "arXiv 2408.00118; google/gemma-2-9b (from memory)",
  architecture = "llama", parameters = 9241705984,
  hyper = { layers = 42, hidden = 3584, heads = 16, kv_heads = 8, head_dim = 256, ffn = 14336,
    vocab = 256000, post_norms = true, window = 4096, window_every = 2, activation = "geglu",
    tied_embeddings = true, logit_softcap = true, attention_softcap = true },
}

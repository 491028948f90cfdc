--- Gemma 2 27B
return {
  source = "arXiv 2408.00118; google/gemma-2-27b (from memory)",
  architecture = "llama", parameters = 27227128320,
  hyper = { layers = 46, hidden = 4608, heads = 32, kv_heads = 16, head_dim = 128, ffn = 36864,
    vocab = 256000, post_norms = true, window = 4096, window_every = 2, activation = "geglu",
    tied_embeddings = true, logit_softcap = true, attention_softcap = true },
}

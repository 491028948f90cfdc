--- Gemma 2 2B
return {
  source = "arXiv 2408.00118; google/gemma-2-2b (from memory)",
  architecture = "llama", parameters = 2614341888,
  hyper = { layers = 26, hidden = 2304, heads = 8, kv_heads = 4, head_dim = 256, ffn = 9216, vocab = 256000,
    post_norms = true, window = 4096, window_every = 2, activation = "geglu", tied_embeddings = true,
    logit_softcap = true, attention_softcap = true },
}

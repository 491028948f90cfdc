--- Gemma 7B
return {
  source = "arXiv 2403.08295; google/gemma-7b (from memory)",
  architecture = "llama", parameters = 8537680896,
  hyper = { layers = 28, hidden = 3072, heads = 16, head_dim = 256, ffn = 24576, vocab = 256000,
    activation = "geglu", tied_embeddings = true },
}

--- Llama 3.2 3B
return {
  source = "meta-llama/Llama-3.2-3B (from memory)",
  aliases = { "llama3-3b" },
  architecture = "llama", parameters = 3212749824,
  hyper = { layers = 28, hidden = 3072, heads = 24, kv_heads = 8, head_dim = 128, ffn = 8192,
    vocab = 128256, tied_embeddings = true },
}

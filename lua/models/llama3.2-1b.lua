--- Llama 3.2 1B
return {
  source = "meta-llama/Llama-3.2-1B (from memory)",
  aliases = { "llama3-1b" },
  architecture = "llama", parameters = 1235814400,
  hyper = { layers = 16, hidden = 2048, heads = 32, kv_heads = 8, head_dim = 64, ffn = 8192, vocab = 128256,
    tied_embeddings = true },
}

--- Qwen 2.5 3B
return {
  source = "arXiv 2412.15115; Qwen/Qwen2.5-3B (from memory)",
  architecture = "llama", parameters = 3085938688,
  hyper = { layers = 36, hidden = 2048, heads = 16, kv_heads = 2, ffn = 11008, vocab = 151936,
    tied_embeddings = true, qkv_bias = true },
}

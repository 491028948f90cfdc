--- Qwen 2.5 0.5B
return {
  source = "arXiv 2412.15115; Qwen/Qwen2.5-0.5B (from memory)",
  architecture = "llama", parameters = 494032768,
  hyper = { layers = 24, hidden = 896, heads = 14, kv_heads = 2, ffn = 4864, vocab = 151936,
    tied_embeddings = true, qkv_bias = true },
}

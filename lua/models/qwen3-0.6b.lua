--- Qwen 3 0.6B
return {
  source = "arXiv 2505.09388; Qwen/Qwen3-0.6B (from memory)",
  architecture = "llama", parameters = 596049920,
  hyper = { layers = 28, hidden = 1024, heads = 16, kv_heads = 8, head_dim = 128, ffn = 3072,
    vocab = 151936, tied_embeddings = true, qk_norm = true },
}

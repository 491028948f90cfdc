--- Qwen 3 1.7B
return {
  source = "arXiv 2505.09388; Qwen/Qwen3-1.7B (from memory)",
  architecture = "llama", parameters = 1720574976,
  hyper = { layers = 28, hidden = 2048, heads = 16, kv_heads = 8, head_dim = 128, ffn = 6144,
    vocab = 151936, tied_embeddings = true, qk_norm = true },
}

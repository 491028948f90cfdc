--- Qwen 3 8B
return {
  source = "arXiv 2505.09388; Qwen/Qwen3-8B (from memory)",
  architecture = "llama", parameters = 8190735360,
  hyper = { layers = 36, hidden = 4096, heads = 32, kv_heads = 8, head_dim = 128, ffn = 12288,
    vocab = 151936, qk_norm = true },
}

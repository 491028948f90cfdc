--- Qwen 3 32B
return {
  source = "arXiv 2505.09388; Qwen/Qwen3-32B (from memory)",
  architecture = "llama", parameters = 32762123264,
  hyper = { layers = 64, hidden = 5120, heads = 64, kv_heads = 8, head_dim = 128, ffn = 25600,
    vocab = 151936, qk_norm = true },
}

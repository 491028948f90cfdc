--- Qwen 3 14B
return {
  source = "arXiv 2505.09388; Qwen/Qwen3-14B (from memory)",
  architecture = "llama", parameters = 14768307200,
  hyper = { layers = 40, hidden = 5120, heads = 40, kv_heads = 8, head_dim = 128, ffn = 17408,
    vocab = 151936, qk_norm = true },
}

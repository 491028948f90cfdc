--- Qwen 3 4B
return {
  source = "arXiv 2505.09388; Qwen/Qwen3-4B (from memory)",
  architecture = "llama", parameters = 4022468096,
  hyper = { layers = 36, hidden = 2560, heads = 32, kv_heads = 8, head_dim = 128, ffn = 9728,
    vocab = 151936, tied_embeddings = true, qk_norm = true },
}

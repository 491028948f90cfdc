--- Qwen 2.5 72B
return {
  source = "arXiv 2412.15115; Qwen/Qwen2.5-72B (from memory)",
  architecture = "llama", parameters = 72706203648,
  hyper = { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 29568, vocab = 152064,
    qkv_bias = true },
}

--- Qwen 2.5 32B
return {
  source = "arXiv 2412.15115; Qwen/Qwen2.5-32B (from memory)",
  architecture = "llama", parameters = 32763876352,
  hyper = { layers = 64, hidden = 5120, heads = 40, kv_heads = 8, ffn = 27648, vocab = 152064,
    qkv_bias = true },
}

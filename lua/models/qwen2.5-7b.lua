--- Qwen 2.5 7B
return {
  source = "arXiv 2412.15115; Qwen/Qwen2.5-7B (from memory)",
  architecture = "llama", parameters = 7615616512,
  hyper = { layers = 28, hidden = 3584, heads = 28, kv_heads = 4, ffn = 18944, vocab = 152064,
    qkv_bias = true },
}

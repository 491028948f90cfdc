--- Qwen 2.5 14B
return {
  source = "arXiv 2412.15115; Qwen/Qwen2.5-14B (from memory)",
  architecture = "llama", parameters = 14770033664,
  hyper = { layers = 48, hidden = 5120, heads = 40, kv_heads = 8, ffn = 13824, vocab = 152064,
    qkv_bias = true },
}

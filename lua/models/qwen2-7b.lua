--- Qwen 2 7B
return {
  source = "arXiv 2407.10671; Qwen/Qwen2-7B (from memory)",
  architecture = "llama", parameters = 7615616512,
  hyper = { layers = 28, hidden = 3584, heads = 28, kv_heads = 4, ffn = 18944, vocab = 152064,
    qkv_bias = true },
}

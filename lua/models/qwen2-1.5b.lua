--- Qwen 2 1.5B
return {
  source = "arXiv 2407.10671; Qwen/Qwen2-1.5B (from memory)",
  architecture = "llama", parameters = 1543714304,
  hyper = { layers = 28, hidden = 1536, heads = 12, kv_heads = 2, ffn = 8960, vocab = 151936,
    tied_embeddings = true, qkv_bias = true },
}

--- Qwen 2 57B-A14B
return {
  source = "arXiv 2407.10671; Qwen/Qwen2-57B-A14B (from memory)",
  architecture = "mixtral", parameters = 57.4e9,
  hyper = { layers = 28, hidden = 3584, heads = 28, kv_heads = 4, vocab = 151936, experts = 64, top_k = 8,
    moe_ffn = 2560, shared_ffn = 20480, shared_gate = true, qkv_bias = true },
}

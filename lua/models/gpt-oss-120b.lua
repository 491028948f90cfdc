--- gpt-oss-120b (5.1B active)
return {
  source = "openai/gpt-oss-120b: its first config.json; arXiv 2508.10925, table 1 (from memory)",
  architecture = "mixtral", parameters = 116829156672,
  hyper = { layers = 36, hidden = 2880, heads = 64, kv_heads = 8, head_dim = 64, vocab = 201088,
    experts = 128, top_k = 4, moe_ffn = 2880, bias = true, attention_sinks = true, clamped_mlp = true,
    scaled_rope = true, window = 128, window_every = 2 },
}

--- gpt-oss-20b (3.6B active)
return {
  source = "openai/gpt-oss-20b: sizes as in gpt_oss_20b_en of keras; arXiv 2508.10925, table 1 (from memory)",
  architecture = "mixtral", parameters = 20914757184,
  hyper = { layers = 24, hidden = 2880, heads = 64, kv_heads = 8, head_dim = 64, vocab = 201088,
    experts = 32, top_k = 4, moe_ffn = 2880, bias = true, attention_sinks = true, clamped_mlp = true,
    scaled_rope = true, window = 128, window_every = 2 },
}

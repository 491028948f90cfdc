--- MiniMax-M2, M2.5 and M2.7 (10B active)
return {
  source = "MiniMaxAI/MiniMax-M2: config.json; weights without the scales of fp8 (from memory)",
  aliases = { "minimax-m2.5", "minimax-m2.7" },
  architecture = "mixtral", parameters = 228689764864,
  hyper = { layers = 62, hidden = 3072, heads = 48, kv_heads = 8, head_dim = 128, vocab = 200064,
    qk_norm = true, qk_norm_whole = true, rotary_fraction = 0.5, experts = 256, top_k = 8, moe_ffn = 1536 },
}

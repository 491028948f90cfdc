--- Qwen 3 30B-A3B
return {
  source = "Qwen/Qwen3-30B-A3B: sizes as in MindSpeed-RL; arXiv 2505.09388, count (from memory)",
  architecture = "mixtral", parameters = 30532122624,
  hyper = { layers = 48, hidden = 2048, heads = 32, kv_heads = 4, head_dim = 128, vocab = 151936,
    experts = 128, top_k = 8, moe_ffn = 768, qk_norm = true },
}

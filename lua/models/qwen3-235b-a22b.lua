--- Qwen 3 235B-A22B
return {
  source = "Qwen/Qwen3-235B-A22B: sizes as in MindSpeed-RL; arXiv 2505.09388, count (from memory)",
  architecture = "mixtral", parameters = 235093634560,
  hyper = { layers = 94, hidden = 4096, heads = 64, kv_heads = 4, head_dim = 128, vocab = 151936,
    experts = 128, top_k = 8, moe_ffn = 1536, qk_norm = true },
}

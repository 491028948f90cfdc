--- DeepSeek-V2 (21B active)
return {
  source = "arXiv 2405.04434; deepseek-ai/DeepSeek-V2 (from memory)",
  architecture = "mixtral", parameters = 235741434880,
  hyper = { layers = 60, hidden = 5120, heads = 128, ffn = 12288, vocab = 102400, experts = 160, top_k = 6,
    moe_ffn = 1536, shared_experts = 2, first_dense_layers = 1, expert_groups = 8, top_groups = 3,
    q_lora_rank = 1536, kv_lora_rank = 512, qk_nope_head_dim = 128, qk_rope_head_dim = 64,
    v_head_dim = 128 },
}

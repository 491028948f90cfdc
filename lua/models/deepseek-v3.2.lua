--- DeepSeek-V3.2 (37B active) with sparse attention, without multi-token prediction
return {
  source = "deepseek-ai/DeepSeek-V3.2-Exp: V3 and an indexer of 0.85e9 (from memory)",
  architecture = "mixtral", parameters = 671.9e9,
  hyper = { layers = 61, hidden = 7168, heads = 128, ffn = 18432, vocab = 129280, experts = 256, top_k = 8,
    moe_ffn = 2048, shared_experts = 1, first_dense_layers = 3, expert_groups = 8, top_groups = 4,
    q_lora_rank = 1536, index_heads = 64, index_head_dim = 128, index_top_k = 2048, kv_lora_rank = 512,
    qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128 },
}

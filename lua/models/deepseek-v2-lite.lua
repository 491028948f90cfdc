--- DeepSeek-V2-Lite (2.4B active)
return {
  source = "arXiv 2405.04434; deepseek-ai/DeepSeek-V2-Lite (from memory)",
  architecture = "mixtral", parameters = 15706484224,
  hyper = { layers = 27, hidden = 2048, heads = 16, ffn = 10944, vocab = 102400, experts = 64, top_k = 6,
    moe_ffn = 1408, shared_experts = 2, first_dense_layers = 1, kv_lora_rank = 512, qk_nope_head_dim = 128,
    qk_rope_head_dim = 64, v_head_dim = 128 },
}

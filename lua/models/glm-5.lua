--- GLM-5 and 5.1 (40B active) with sparse attention, without multi-token prediction
return {
  source = "zai-org/GLM-5: sizes of config.json and GlmMoeDsaConfig, 744B by the documentation of transformers",
  aliases = { "glm-5.1" },
  architecture = "mixtral", parameters = 744e9,
  hyper = { layers = 78, hidden = 6144, heads = 64, ffn = 12288, vocab = 154880, experts = 256, top_k = 8,
    moe_ffn = 2048, shared_experts = 1, first_dense_layers = 3, q_lora_rank = 2048, index_heads = 32,
    index_head_dim = 128, index_top_k = 2048, kv_lora_rank = 512, qk_nope_head_dim = 192, qk_rope_head_dim = 64,
    v_head_dim = 256 },
}

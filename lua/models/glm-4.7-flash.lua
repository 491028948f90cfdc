--- GLM-4.7-Flash (3B active): latent attention, 64 experts, without multi-token prediction
return {
  source = "zai-org/GLM-4.7-Flash: config.json; 30B-A3B by its page (from memory)",
  architecture = "mixtral", parameters = 30e9,
  hyper = { layers = 47, hidden = 2048, heads = 20, ffn = 10240, vocab = 154880, experts = 64, top_k = 4,
    moe_ffn = 1536, shared_experts = 1, first_dense_layers = 1, q_lora_rank = 768, kv_lora_rank = 512,
    qk_nope_head_dim = 192, qk_rope_head_dim = 64, v_head_dim = 256 },
}

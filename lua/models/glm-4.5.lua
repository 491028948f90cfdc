--- GLM-4.5 (32B active), multi-token prediction apart.
return {
  name = "glm-4.5", summary = "GLM-4.5 (32B active), multi-token prediction apart",
  source = "arXiv 2508.06471 (355B with rounding of its parts); zai-org/GLM-4.5",
  architecture = "mixtral", parameters = 353e9,
  hyper = { layers = 92, hidden = 5120, heads = 96, kv_heads = 8, head_dim = 128, ffn = 12288,
    vocab = 151552, qk_norm = true, experts = 160, top_k = 8, moe_ffn = 1536, shared_experts = 1,
    first_dense_layers = 3, qkv_bias = true, rotary_fraction = 0.5 },
}

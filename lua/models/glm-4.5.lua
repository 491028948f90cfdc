--- GLM-4.5, 4.6 and 4.7 (32B active), without multi-token prediction
return {
  source = "arXiv 2508.06471; zai-org/GLM-4.5 stores 358,337,791,296, with the prediction layer "
    .. "and a second embedding and head (from memory); zai-org/GLM-4.7's config.json has the same sizes",
  aliases = { "glm-4.6", "glm-4.7" },
  architecture = "mixtral", parameters = 352797829024,
  hyper = { layers = 92, hidden = 5120, heads = 96, kv_heads = 8, head_dim = 128, ffn = 12288,
    vocab = 151552, qk_norm = true, experts = 160, top_k = 8, moe_ffn = 1536, shared_experts = 1,
    first_dense_layers = 3, qkv_bias = true, rotary_fraction = 0.5 },
}

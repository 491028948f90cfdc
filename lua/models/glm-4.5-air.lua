--- GLM-4.5-Air (12B active), without multi-token prediction
return {
  source = "zai-org/GLM-4.5-Air: sizes as in glm4.5-106B-A12B of slime; it stores 110,468,824,832, with the prediction "
    .. "layer and a second embedding and head (from memory)",
  architecture = "mixtral", parameters = 106852251264,
  hyper = { layers = 46, hidden = 4096, heads = 96, kv_heads = 8, head_dim = 128, ffn = 10944,
    vocab = 151552, experts = 128, top_k = 8, moe_ffn = 1408, shared_experts = 1, first_dense_layers = 1,
    qkv_bias = true, rotary_fraction = 0.5 },
}

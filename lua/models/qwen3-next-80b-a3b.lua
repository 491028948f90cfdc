--- Qwen3-Next 80B-A3B: gated delta net, attention in each fourth layer
return {
  source = "Qwen/Qwen3-Next-80B-A3B-Instruct: config.json of its Thinking model; weights of its class (from memory)",
  architecture = "mixtral", parameters = 79674391296,
  hyper = { layers = 48, hidden = 2048, heads = 16, kv_heads = 2, head_dim = 256, vocab = 151936,
    rotary_fraction = 0.25, qk_norm = true, attention_gate = true, experts = 512, top_k = 10, moe_ffn = 512,
    shared_ffn = 512, shared_gate = true, linear_key_heads = 16, linear_value_heads = 32,
    layer_types = { "linear_attention", "linear_attention", "linear_attention", "full_attention" } },
}

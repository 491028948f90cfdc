--- Qwen 3.5 397B-A17B: gated delta net, attention in each fourth layer; language model only
return {
  source = "Qwen/Qwen3.5-397B-A17B: config.json; 396B without vision by the page of its GGUF files",
  architecture = "mixtral", parameters = 396e9,
  hyper = { layers = 60, hidden = 4096, heads = 32, kv_heads = 2, head_dim = 256, vocab = 248320,
    rotary_fraction = 0.25, qk_norm = true, attention_gate = true, experts = 512, top_k = 10, moe_ffn = 1024,
    shared_ffn = 1024, shared_gate = true, linear_key_heads = 16, linear_value_heads = 64,
    layer_types = { "linear_attention", "linear_attention", "linear_attention", "full_attention" } },
}

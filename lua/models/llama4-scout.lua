--- Llama 4 Scout (17B active, 16 experts), language model only
return {
  source = "meta-llama/Llama-4-Scout-17B-16E: config.json of its Instruct model; count (from memory)",
  architecture = "mixtral", parameters = 107769861120,
  hyper = { layers = 48, hidden = 5120, heads = 40, kv_heads = 8, head_dim = 128, vocab = 202048,
    experts = 16, top_k = 1, moe_ffn = 8192, shared_experts = 1, qk_l2_norm = true, attention_chunk = 8192,
    layer_types = { "chunked_attention", "chunked_attention", "chunked_attention", "nope_attention" } },
}

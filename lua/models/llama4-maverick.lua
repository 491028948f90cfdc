--- Llama 4 Maverick (17B active, 128 experts), language model only
return {
  source = "meta-llama/Llama-4-Maverick-17B-128E: config.json of its Instruct model; count (from memory)",
  architecture = "mixtral", parameters = 400711848960,
  hyper = { layers = 48, hidden = 5120, heads = 40, kv_heads = 8, head_dim = 128, ffn = 16384,
    vocab = 202048, experts = 128, top_k = 1, moe_ffn = 8192, shared_experts = 1, moe_every = 2,
    attention_chunk = 8192,
    layer_types = { "chunked_attention", "chunked_attention", "chunked_attention", "nope_attention" } },
}

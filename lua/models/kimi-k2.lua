--- Kimi K2 and K2 Thinking, and K2.5 without its vision encoder (32B active)
return {
  source = "config.json of moonshotai/Kimi-K2-Instruct, moonshotai/Kimi-K2-Thinking and moonshotai/Kimi-K2.5; 1,026B "
    .. "parameters as stored by the page of moonshotai/Kimi-K2-Base (from memory)",
  aliases = { "kimi-k2-thinking", "kimi-k2.5" },
  architecture = "mixtral", parameters = 1026e9,
  hyper = { layers = 61, hidden = 7168, heads = 64, ffn = 18432, vocab = 163840, experts = 384, top_k = 8,
    moe_ffn = 2048, shared_experts = 1, first_dense_layers = 1, q_lora_rank = 1536, kv_lora_rank = 512,
    qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128 },
}

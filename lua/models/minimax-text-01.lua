--- MiniMax-Text-01: lightning attention, softmax attention in each eighth layer, 32 experts.
local linear = "lightning_attention"

return {
  name = "minimax-text-01", summary = "MiniMax-Text-01: lightning attention, softmax in each eighth layer, 32 experts",
  source = "MiniMaxAI/MiniMax-Text-01, config.json; 456B (from memory)", architecture = "mixtral", parameters = 456e9,
  hyper = { layers = 80, hidden = 6144, heads = 64, kv_heads = 8, head_dim = 128, ffn = 9216, vocab = 200064,
    rotary_fraction = 0.5, experts = 32, top_k = 2, scan_chunk = 256,
    layer_types = { linear, linear, linear, linear, linear, linear, linear, "full_attention" } },
}

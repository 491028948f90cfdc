--- Kimi Linear 48B-A3B: Kimi delta attention, latent attention in each fourth and the last layer, 256 experts.
local types = {}
for i = 1, 27 do types[i] = (i % 4 == 0 or i == 27) and "full_attention" or "linear_attention" end

return {
  name = "kimi-linear-48b-a3b", summary = "Kimi Linear 48B-A3B: Kimi delta attention, latent attention, 256 experts",
  source = "moonshotai/Kimi-Linear-48B-A3B-Base, config.json and weights (from memory)", architecture = "mixtral",
  parameters = 49122681728,
  hyper = { layers = 27, hidden = 2304, heads = 32, ffn = 9216, vocab = 163840, position = "none", experts = 256,
    top_k = 8, moe_ffn = 1024, shared_experts = 1, first_dense_layers = 1, kv_lora_rank = 512, qk_nope_head_dim = 128,
    qk_rope_head_dim = 64, v_head_dim = 128, linear_key_heads = 32, linear_value_heads = 32, linear_gate_rank = 128,
    layer_types = types },
}

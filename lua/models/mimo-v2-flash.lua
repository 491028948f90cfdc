--- MiMo-V2-Flash (15B active): a window of 128 in five of six layers, without multi-token prediction
local types, fields = {}, {}
for i = 1, 48 do
  local full = i == 1 or i % 6 == 0
  types[i] = full and "full_attention" or "sliding_attention"
  fields[i] = not full and { kv_heads = 8, attention_sinks = true }
end

return {
  source = "XiaomiMiMo/MiMo-V2-Flash: MiMoV2FlashConfig of NVIDIA's NeMo AutoModel; order of layers and 309B by arXiv "
    .. "2601.02780",
  architecture = "mixtral", parameters = 309e9,
  hyper = { layers = 48, hidden = 4096, heads = 64, kv_heads = 4, head_dim = 192, v_head_dim = 128, ffn = 16384,
    vocab = 152576, experts = 256, top_k = 8, moe_ffn = 2048, first_dense_layers = 1, rotary_fraction = 0.334,
    window = 128, layer_types = types, layer_fields = fields },
}

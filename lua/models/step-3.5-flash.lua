--- Step-3.5-Flash (11B active): a window of 512 and more heads in three of four layers, without multi-token prediction
local types, fields = {}, {}
for i = 1, 45 do
  local full = i % 4 == 1
  types[i] = full and "full_attention" or "sliding_attention"
  fields[i] = not full and { heads = 96, rotary_fraction = 1 }
end

return {
  source = "stepfun-ai/Step-3.5-Flash: config.json of its MXFP4 copy by AMD; 197B by the page of its GGUF files",
  architecture = "mixtral", parameters = 197e9,
  hyper = { layers = 45, hidden = 4096, heads = 64, kv_heads = 8, head_dim = 128, ffn = 11264, vocab = 128896,
    experts = 288, top_k = 8, moe_ffn = 1280, shared_ffn = 1280, first_dense_layers = 3, qk_norm = true,
    head_gate = true, rotary_fraction = 0.5, window = 512, layer_types = types, layer_fields = fields },
}

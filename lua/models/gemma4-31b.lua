--- Gemma 4 31B: a window of 1024 in five of six layers; the others have wider heads, whose keys are the values.
local fields = {}
for i = 1, 60 do
  fields[i] = i % 6 == 0 and { head_dim = 512, kv_heads = 4, keys_as_values = true, rotary_fraction = 0.25 }
end
local window = "sliding_attention"

return {
  name = "gemma4-31b", summary = "Gemma 4 31B", source = "google/gemma-4-31B, config.json; 30.7B (from memory)",
  architecture = "gemma3n", parameters = 30.7e9,
  hyper = { layers = 60, hidden = 5376, heads = 32, kv_heads = 16, head_dim = 256, ffn = 21504, vocab = 262144,
    window = 1024, qk_norm = true, value_norm = true, logit_softcap = true, layer_fields = fields,
    layer_types = { window, window, window, window, window, "full_attention" } },
}

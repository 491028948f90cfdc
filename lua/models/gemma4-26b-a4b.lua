--- Gemma 4 26B-A4B: as the 31B, with 128 experts beside the MLP.
local fields = {}
for i = 1, 30 do
  fields[i] = i % 6 == 0 and { head_dim = 512, kv_heads = 2, keys_as_values = true, rotary_fraction = 0.25 }
end
local window = "sliding_attention"

return {
  name = "gemma4-26b-a4b", summary = "Gemma 4 26B-A4B: 128 experts beside the MLP",
  source = "google/gemma-4-26B-A4B, config.json; 25.2B (from memory)", architecture = "gemma3n", parameters = 25.2e9,
  hyper = { layers = 30, hidden = 2816, heads = 16, kv_heads = 8, head_dim = 256, ffn = 2112, vocab = 262144,
    experts = 128, top_k = 8, moe_ffn = 704, window = 1024, qk_norm = true, value_norm = true, layer_fields = fields,
    logit_softcap = true,
    layer_types = { window, window, window, window, window, "full_attention" } },
}

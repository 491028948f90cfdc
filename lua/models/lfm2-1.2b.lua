--- LFM2 1.2B: short convolutions, and attention in six of 16 layers.
local types = {}
for i = 1, 16 do types[i] = "short_convolution" end
for _, i in ipairs { 3, 6, 9, 11, 13, 15 } do types[i] = "full_attention" end

return {
  name = "lfm2-1.2b", summary = "LFM2 1.2B: short convolutions, attention in six of 16 layers",
  source = "LiquidAI/LFM2-1.2B, config.json and weights (from memory)", architecture = "llama", parameters = 1170340608,
  hyper = { layers = 16, hidden = 2048, heads = 32, kv_heads = 8, ffn = 8192, vocab = 65536, tied_embeddings = true,
    qk_norm = true, conv_kernel = 3, layer_types = types },
}

--- LFM2 8B-A1B: short convolutions, attention in six of 24 layers, 32 experts.
local types = {}
for i = 1, 24 do types[i] = "short_convolution" end
for _, i in ipairs { 3, 7, 11, 15, 19, 22 } do types[i] = "full_attention" end

return {
  name = "lfm2-8b-a1b", summary = "LFM2 8B-A1B: short convolutions, attention in six of 24 layers, 32 experts",
  source = "LiquidAI/LFM2-8B-A1B: config.json of a fine-tuned model; weights (from memory)",
  architecture = "mixtral", parameters = 8339929856,
  hyper = { layers = 24, hidden = 2048, heads = 32, kv_heads = 8, ffn = 7168, vocab = 65536, tied_embeddings = true,
    qk_norm = true, experts = 32, top_k = 4, moe_ffn = 1792, first_dense_layers = 2, conv_kernel = 3,
    layer_types = types },
}

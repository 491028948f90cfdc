--- Kinds of layers that `layer_types` may name: kind -> { name = in names of layers, fields = hyper-parameters that it
--- replaces, needs = a hyper-parameter without which it has no meaning, alone = true: a block without attention, which
--- only the architecture `hybrid` has }.
local full = { name = "full attention", fields = { full_attention = true } }

return {
  full_attention = full, attention = full,
  nope_attention = { name = "full attention without positions", fields = { full_attention = true, position = "none" } },
  sliding_attention = { name = "window", fields = {}, needs = "window" },
  chunked_attention = { name = "chunks", fields = { chunked = true }, needs = "attention_chunk" },
  linear_attention = { name = "gated delta net", fields = { mixer = "gated_delta" } },
  lightning_attention = { name = "lightning attention", fields = { mixer = "lightning" } },
  mamba = { name = "Mamba", fields = { mixer = "mamba" } },
  mamba2 = { name = "Mamba-2", fields = { mixer = "mamba2" } },
  short_convolution = { name = "short convolution", fields = { mixer = "short_conv" } },
  mlp = { fields = {}, alone = true }, moe = { fields = {}, alone = true },
}

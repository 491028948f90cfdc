--- MLP-Mixer (Tolstikhin et al. 2021, arXiv 2105.01601): an MLP over the tokens of each channel, then one over the
--- channels of each token. `vocab` is the number of classes.
local blocks = require "ett.model.blocks"

return {
  schema = {
    heads = { "count", default = 1 },
    patch_size = { "count", default = 16, help = "pixels of a patch's side" },
    image_side = { "count", default = 224, help = "pixels of an image's side" },
    token_ffn = { "count", help = "width of the MLP over the tokens" },
  },
  build = function(h)
    h.norm, h.gated_mlp, h.bias, h.causal = "layer_norm", false, true, false
    local side = h.image_side // h.patch_size
    local transposed = { hidden = side * side, ffn = h.token_ffn, seq = h.hidden }
    local copy = "elementwise" -- to the layout of the next product
    local pooled = { seq = 1 }
    return { layers = {
      { name = "patches", place = "first", ops = { "patch_embedding" } },
      { name = "block", count = h.layers, ops = blocks.join("layer_norm", copy,
        blocks.with(blocks.dense_feed(h), transposed), copy, "residual_add",
        "layer_norm", blocks.dense_feed(h), "residual_add") },
      { name = "head", place = "last", ops = blocks.join("layer_norm", copy,
        blocks.with({ blocks.enter, { op = "lm_head", with = { head_bias = true } }, "cross_entropy" }, pooled)) },
    } }
  end,
}

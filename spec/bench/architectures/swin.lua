--- Swin Transformer (Liu et al. 2021, arXiv 2103.14030): attention in windows of window_side x window_side patches,
--- shifted in every second layer, and four stages. Each stage has half the side and twice the width and heads of the
--- one before; `hidden` and `heads` are those of the first. `vocab` is the number of classes.
local blocks = require "ett.model.blocks"

return {
  schema = {
    depths = { "list", help = "layers of each stage" },
    patch_size = { "count", default = 4, help = "pixels of a patch's side" },
    image_side = { "count", default = 224, help = "pixels of an image's side" },
    window_side = { "count", default = 7, help = "patches of a window's side" },
  },
  build = function(h)
    h.norm, h.gated_mlp, h.bias, h.causal, h.position = "layer_norm", false, true, false, "none"
    h.attention = "unfused"
    local tokens = h.window_side ^ 2 // 1 | 0
    local layers = { { name = "patches", place = "first", ops = { "patch_embedding", "layer_norm" } } }
    for stage, depth in ipairs(h.depths) do
      local factor = 1 << (stage - 1)
      local width, heads, side = h.hidden * factor, h.heads * factor, h.image_side // h.patch_size // factor
      local fields = { hidden = width, heads = heads, kv_heads = heads, head_dim = width // heads, ffn = 4 * width }
      local function sends() return side * side * width / h.hidden end
      local copy = "elementwise"
      local bias = { op = "elementwise", with = function(c) -- positions, added to the scores
        return { element_width = tokens, micro_batch = c.micro_batch * heads }
      end }
      local function block(copies)
        return blocks.with(blocks.windows(blocks.join("layer_norm", copies, copy, blocks.enter, "linear_qkv", "bmm_qk",
          bias, "fill_mask", "softmax", "bmm_pv", "head_copies", "linear_proj", blocks.leave, copy, copies,
          "residual_add", "layer_norm", blocks.dense_feed(h), "residual_add"), tokens, fields), { seq = side * side })
      end
      layers[#layers + 1] = { name = "windows " .. stage, count = (depth + 1) // 2, ops = block(), sends = sends,
        reads = sends }
      if depth > 1 then
        layers[#layers + 1] = { name = "shifted " .. stage, count = depth // 2, ops = block(copy), sends = sends,
          reads = sends }
      end
      if stage < #h.depths then
        local merged = { hidden = 4 * width, seq = side * side // 4 }
        layers[#layers + 1] = { name = "merging " .. stage, reads = sends,
          sends = function() return side * side / 4 * 2 * width / h.hidden end,
          ops = blocks.with({ copy, "layer_norm", { op = "linear_side", with = { side_out = 2 * width } } }, merged) }
      end
    end
    local last = { hidden = h.hidden << (#h.depths - 1), seq = tokens }
    layers[#layers + 1] = { name = "head", place = "last", ops = blocks.join(blocks.with({ "layer_norm" }, last),
      blocks.with({ blocks.enter, { op = "lm_head", with = { head_bias = true } }, "cross_entropy" },
        { hidden = last.hidden, seq = 1 })) }
    return { layers = layers }
  end,
}

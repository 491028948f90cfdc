--- DiT (Peebles & Xie 2023, arXiv 2212.09748): a transformer on the patches of a latent image. The condition of an
-- image is its time step and class. A product of it gives the scales, shifts and gates of all its tokens (adaLN-Zero).
local blocks = require "ett.model.blocks"

return {
  summary = "DiT: a diffusion transformer with adaptive layer norms",
  schema = {
    vocab = { "count", default = 1 }, -- no vocabulary
    patch_values = { "count", default = 16, help = "numbers in a patch: 2 x 2 pixels, 4 channels" },
    classes = { "count", default = 1001, help = "classes, and one for no class" },
    frequencies = { "count", default = 256, help = "width of the sine features of a time step" },
  },
  build = function(h)
    h.norm, h.position, h.bias, h.gainless, h.causal = "layer_norm", "none", true, true, false
    local image = { seq = 1, cp = 1, sequence_parallel = false } -- one row for each image, on each rank
    local function linear(inputs, outputs)
      return { op = "linear_side", with = { side_in = inputs, side_out = outputs, side_bias = true } }
    end
    local function of_image(...) return blocks.with(blocks.join(...), image) end
    local width = h.hidden
    local condition = of_image(linear(h.frequencies, width), linear(width, width),
      { op = "embedding", with = { vocab = h.classes, vocab_multiple = 1, tp = 1 } })
    local block = blocks.join(of_image(linear(width, 6 * width)),
      "layer_norm", "modulate", blocks.enter, blocks.attention(h), blocks.leave, "gated_add",
      "layer_norm", "modulate", blocks.enter, blocks.mlp(h), blocks.leave, "gated_add")
    local function and_condition(c) return c.seq + 1 end -- stages pass the condition on
    return { layers = {
      { name = "patches", place = "first", sends = and_condition,
        ops = blocks.join(linear(h.patch_values, width), condition) },
      { name = "block", count = h.layers, sends = and_condition, ops = block },
      -- Noise and its variance of each number of a patch.
      { name = "output", place = "last", ops = blocks.join(of_image(linear(width, 2 * width)), "layer_norm", "modulate",
        linear(width, 2 * h.patch_values)) },
    } }
  end,
}

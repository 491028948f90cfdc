--- A vision tower, a projector and a language model: LLaVA-1.5 (Liu et al. 2023, arXiv 2310.03744).
-- The tower is a ViT of its own width, without masks and with biases. It attends to patches and a class token, and its
-- layers stand before those of the language model. `seq` of the plan counts the patches and the text.
local blocks = require "ett.model.blocks"

local function sequence(layers) -- layers of all parts, in one list
  local list = {}
  for _, part in ipairs(layers) do table.move(part, 1, #part, #list + 1, list) end
  return list
end

return {
  summary = "LLaVA-1.5: a vision tower, a projector and a language model",
  schema = {
    tower_layers = { "count", default = 23, help = "layers of the tower that run (the last of CLIP's 24 does not)" },
    tower_hidden = { "count", default = 1024, help = "width of the tower" },
    tower_heads = { "count", default = 16, help = "heads of the tower" },
    patches = { "count", default = 576, help = "patches of an image" },
    patch_values = { "count", default = 588, help = "numbers in a patch: 14 x 14 pixels, 3 colours" },
  },
  build = function(h)
    h.norm, h.position, h.gated_mlp = "rms_norm", "rope", true
    local width, tokens = h.tower_hidden, h.patches + 1
    -- All tensor and context ranks compute the tower's norms on all of its tokens.
    local vision = { hidden = width, heads = h.tower_heads, kv_heads = h.tower_heads, head_dim = width // h.tower_heads,
      ffn = 4 * width, bias = true, gated_mlp = false, causal = false, seq = tokens, key_seq = tokens, cp = 1,
      sequence_parallel = false }
    local function linear(inputs, outputs, bias)
      return { op = "linear_side", with = { side_in = inputs, side_out = outputs, side_bias = bias, seq = h.patches,
        cp = 1, sequence_parallel = false } }
    end
    -- What a stage sends onwards and a recomputed layer reads, in tokens of the language model's width.
    local function vision_tokens(c) return tokens * width / c.hidden end

    local patch = { name = "patches", place = "first", sends = vision_tokens,
      ops = blocks.join(linear(h.patch_values, width, false), blocks.with({
        { op = "embedding", with = { vocab = tokens + 1, vocab_multiple = 1, tp = 1 } }, -- positions and class token
        "residual_add", "layer_norm" }, vision)) }
    local tower = { name = "tower", count = h.tower_layers, sends = vision_tokens, reads = vision_tokens,
      ops = blocks.with(blocks.join("layer_norm", blocks.enter, "linear_qkv", "flash_attention", "linear_proj",
        blocks.leave, "residual_add", "layer_norm", blocks.enter, "linear_up", "gelu", "linear_down", blocks.leave,
        "residual_add"), vision) }
    local projector = { name = "projector", reads = vision_tokens, ops = blocks.join(linear(width, h.hidden, true),
      { op = "gelu", with = { ffn = h.hidden, tp = 1, seq = h.patches, cp = 1 } }, linear(h.hidden, h.hidden, true),
      "embedding", blocks.leave) } -- of the text: after the tower, so that frozen_layers does not freeze it
    return { layers = sequence { { patch, tower, projector }, blocks.dense_layers(h), { blocks.head(h) } } }
  end,
}

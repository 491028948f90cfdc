--- Linear attention with a learned feature map, the product of two projections of a head
--- (flash-linear-attention, fla/layers/linear_attn.py and fla/modules/feature_map.py, HadamardFeatureMap).
local blocks = require "ett.model.blocks"

return function(h)
  h.norm, h.gated_mlp = "rms_norm", true
  local head = h.hidden // h.heads
  local function linear(again) -- again: of an input that is already stored
    return { op = "linear_side", with = { side_in = h.hidden, side_out = h.hidden }, same_input = again }
  end
  local function of_heads(c) return { micro_batch = c.micro_batch * h.heads, hidden = head } end
  local feature_map = blocks.with({ { op = "linear_side", times = 2, with = { side_in = head, side_out = head } },
    { op = "elementwise", with = { element_reads = 2, element_saved = 2 } } }, of_heads)
  return blocks.decoder(h, { name = "block", count = h.layers, ops = blocks.join(
    "rms_norm", linear(), linear(true), linear(true), feature_map, feature_map,
    { op = "linear_attention", with = { linear_value_heads = h.heads, linear_value_dim = head, scan_chunk = 64 } },
    blocks.with({ "rms_norm" }, of_heads), linear(), "residual_add",
    "rms_norm", blocks.dense_feed(h), "residual_add") })
end

--- RetNet (Sun et al. 2023, arXiv 2307.08621) as flash-linear-attention has it (fla/layers/multiscale_retention.py):
--- keys of the model's width, values and gates of twice that width.
local blocks = require "ett.model.blocks"

return function(h)
  h.norm, h.gated_mlp = "rms_norm", true
  local width, head = h.hidden, h.hidden // h.heads
  local function linear(outputs, inputs, again) -- again: of an input that is already stored
    return { op = "linear_side", with = { side_in = inputs or width, side_out = outputs }, same_input = again }
  end
  local mixer = { mixer = "lightning", linear_value_heads = h.heads, linear_key_dim = head, linear_value_dim = 2 * head,
    scan_chunk = 64 }
  return blocks.decoder(h, { name = "block", count = h.layers, ops = blocks.join(
    "rms_norm", linear(width), linear(width, width, true), linear(2 * width, width, true),
    linear(2 * width, width, true), "rope",
    blocks.with({ "linear_attention", "gated_norm" }, mixer), linear(width, 2 * width), "residual_add",
    "rms_norm", blocks.dense_feed(h), "residual_add") })
end

--- RetNet (Sun et al. 2023, arXiv 2307.08621) as flash-linear-attention has it (fla/layers/multiscale_retention.py):
--- keys of the model's width, values and gates of twice that width.
local blocks = require "ett.model.blocks"

return function(h)
  h.norm, h.gated_mlp = "rms_norm", true
  local width, head = h.hidden, h.hidden // h.heads
  local function column(outputs, again) -- again: of an input that is already stored
    return { op = "linear_column", with = { side_out = outputs }, same_input = again }
  end
  local mixer = { mixer = "lightning", linear_value_heads = h.heads, linear_key_dim = head, linear_value_dim = 2 * head,
    scan_chunk = 64 }
  return blocks.decoder(h, { name = "block", count = h.layers, ops = blocks.join(
    "rms_norm", blocks.enter, column(width), column(width, true), column(2 * width, true), column(2 * width, true),
    "rope", blocks.with({ "linear_attention", "gated_norm" }, mixer),
    { op = "linear_row", with = { side_in = 2 * width } }, blocks.leave, "residual_add",
    "rms_norm", blocks.dense_feed(h), "residual_add") })
end

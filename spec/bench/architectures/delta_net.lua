--- DeltaNet (Yang et al. 2024, arXiv 2406.06484) as flash-linear-attention has it (fla/layers/delta_net.py): short
--- convolutions, L2 norms of queries and keys, one rate of the update for each head, no decays and no output gate.
local blocks = require "ett.model.blocks"

return function(h)
  h.norm, h.gated_mlp = "rms_norm", true
  local head = h.hidden // h.heads
  local function linear(outputs, again) -- again: of an input that is already stored
    return { op = "linear_side", with = { side_in = h.hidden, side_out = outputs }, same_input = again }
  end
  local function of_heads(c) return { micro_batch = c.micro_batch * h.heads, hidden = head } end
  local mixer = { mixer = "gated_delta", linear_key_heads = h.heads, linear_value_heads = h.heads,
    linear_key_dim = head, linear_value_dim = head }
  return blocks.decoder(h, { name = "block", count = h.layers, ops = blocks.join(
    "rms_norm", linear(h.hidden), linear(h.hidden, true), linear(h.hidden, true), linear(h.heads, true),
    blocks.with({ "mixer_conv" }, mixer), blocks.with({ { op = "rms_norm", times = 2, with = { gainless = true } } },
      of_heads), blocks.with({ "gated_delta_rule" }, mixer), blocks.with({ "rms_norm" }, of_heads),
    linear(h.hidden), "residual_add", "rms_norm", blocks.dense_feed(h), "residual_add") })
end

--- RWKV-6 (Peng et al. 2024, arXiv 2404.05892) as flash-linear-attention has it (fla/layers/rwkv6.py,
--- fla/models/rwkv6): keys of half the width; PyTorch's elementwise kernels mix each token with the one before.
local blocks = require "ett.model.blocks"

return function(h)
  h.norm, h.gated_mlp, h.norm_bias = "layer_norm", false, true
  local width, head = h.hidden, h.hidden // h.heads
  local function linear(inputs, outputs)
    return { op = "linear_side", with = { side_in = inputs, side_out = outputs } }
  end
  local function kernel(reads, saved, size)
    return { op = "elementwise", with = { element_width = size, element_reads = reads, element_saved = saved } }
  end
  local shift = { kernel(1, 0), kernel(2, 0) } -- the token before; its difference from the token
  local lerp = { kernel(1, 1), kernel(2, 0) } -- x + delta mu
  local low_rank = { linear(width, 64), kernel(1, 1, 64) } -- and its tanh
  local decay = blocks.join(lerp, low_rank, linear(64, width), kernel(1, 0), kernel(2, 2), kernel(2, 0), low_rank,
    linear(64, width // 2), kernel(1, 0, width // 2), kernel(1, 1, width // 2))
  local mixer = { mixer = "lightning", linear_value_heads = h.heads, linear_key_dim = head // 2,
    linear_value_dim = head, linear_decays = true, scan_chunk = 64 }
  local time_mix = blocks.join(shift, lerp, linear(width, width // 2), lerp, linear(width, width // 2),
    lerp, linear(width, width), decay, lerp, linear(width, width),
    blocks.with({ "linear_attention", "gated_norm" }, mixer), linear(width, width))
  local channel_mix = blocks.join(shift, lerp, linear(width, h.ffn), kernel(1, 1, h.ffn), kernel(1, 1, h.ffn),
    linear(h.ffn, width), lerp, linear(width, width), kernel(1, 1), kernel(2, 2)) -- squared ReLU; sigmoid; product
  return blocks.decoder(h, { name = "block", count = h.layers, ops = blocks.join(
    "layer_norm", time_mix, "residual_add", "layer_norm", channel_mix, "residual_add") })
end

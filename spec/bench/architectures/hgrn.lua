--- HGRN (Qin et al. 2023, arXiv 2311.04823), a gated recurrence of vectors, and HGRN2 (2404.07904), whose states are
--- matrices (flash-linear-attention, fla/layers/hgrn.py and hgrn2.py). PyTorch's elementwise kernels make the gates.
local blocks = require "ett.model.blocks"

return {
  schema = { expand = { "natural", default = 0, help = "width of a key (HGRN2); 0: HGRN" } },
  build = function(h)
    h.norm, h.gated_mlp = "rms_norm", true
    local function linear(again) -- again: of an input that is already stored
      return { op = "linear_side", with = { side_in = h.hidden, side_out = h.hidden }, same_input = again }
    end
    local function kernel(reads, times)
      return { op = "elementwise", times = times, with = { element_reads = reads, element_saved = reads } }
    end
    local mix
    if h.expand > 0 then
      mix = { kernel(1), kernel(1, 5), -- SiLU of queries; sigmoid, lower bound, complement and logarithm of the gate
        { op = "linear_attention", with = { linear_value_heads = h.hidden // h.expand, linear_value_dim = h.expand,
          linear_decays = true, scan_chunk = 64 } }, "rms_norm" }
    else
      mix = { kernel(1, 3), kernel(2), kernel(2), -- sigmoid, lower bound, complement; gated input; the recurrence
        { op = "gated_norm", with = { mixer = "lightning", linear_value_heads = 1, linear_value_dim = h.hidden } } }
    end
    return blocks.decoder(h, { name = "block", count = h.layers, ops = blocks.join(
      "rms_norm", linear(), linear(true), linear(true), mix, linear(), "residual_add",
      "rms_norm", blocks.dense_feed(h), "residual_add") })
  end,
}

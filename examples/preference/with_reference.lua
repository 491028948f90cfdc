--- A trained decoder and a frozen one that only runs forward on the same tokens: the reference of DPO (Rafailov et al.
-- 2023, arXiv 2305.18290), or with sizes of its own the teacher of a distillation.
local blocks = require "ett.model.blocks"

local function size(help)
  return { "count", optional = true, help = help .. " of the frozen model (default: the same)" }
end

return {
  summary = "a decoder with a frozen reference or teacher, for DPO and distillation",
  schema = { frozen_depth = size "layers", frozen_hidden = size "width", frozen_heads = size "heads",
    frozen_kv_heads = size "key heads", frozen_ffn = size "width of the MLP" },
  build = function(h)
    h.norm, h.position, h.gated_mlp = "rms_norm", "rope", true
    local hidden, heads = h.frozen_hidden or h.hidden, h.frozen_heads or h.heads
    local sizes = { hidden = hidden, heads = heads, kv_heads = h.frozen_kv_heads or h.kv_heads,
      head_dim = h.frozen_hidden and hidden // heads or h.head_dim,
      ffn = h.frozen_ffn or h.ffn, tied_embeddings = false }
    local function tokens(c) return c.seq * hidden / c.hidden end -- of the trained model's width
    local other = blocks.dense_layers(h)
    other[1].count = h.frozen_depth or h.layers
    table.insert(other, 1, blocks.embedding(h))
    table.insert(other, blocks.head(h))
    local layers = { blocks.embedding(h) }
    for _, layer in ipairs(blocks.forward_only(other, sizes)) do
      layer.sends, layer.reads = tokens, tokens
      layers[#layers + 1] = layer
    end
    layers[#layers].sends = nil -- its logits stay; the stream is the trained model's again
    for _, layer in ipairs(blocks.dense_layers(h)) do layers[#layers + 1] = layer end
    layers[#layers + 1] = blocks.head(h)
    return { layers = layers }
  end,
}

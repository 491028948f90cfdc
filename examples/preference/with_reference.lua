--- A trained decoder and a frozen one that only runs forward on the same tokens: the reference of DPO (Rafailov et al.
-- 2023, arXiv 2305.18290), or with sizes of its own the teacher of a distillation.
local blocks = require "ett.model.blocks"
local error_module = require "ett.base.error"

local function size(help)
  return { "count", optional = true, help = help .. " of the frozen model (default: the same)" }
end

-- The fields of the frozen model that differ from the trained model's. Raises if its heads do not divide its widths.
local function sizes_of(h)
  local hidden, heads = h.frozen_hidden or h.hidden, h.frozen_heads or h.heads
  local kv_heads = h.frozen_kv_heads or h.kv_heads
  local function check(divisor, number, of, whole)
    if whole % number ~= 0 then
      error_module.raise("model", "with_reference: %s = %d must divide %s = %d of the frozen model", divisor, number,
        of, whole)
    end
  end
  check("frozen_kv_heads", kv_heads, "frozen_heads", heads)
  if h.frozen_hidden then check("frozen_heads", heads, "frozen_hidden", hidden) end
  return { hidden = hidden, heads = heads, kv_heads = kv_heads, head_dim = h.frozen_hidden and hidden // heads
    or h.head_dim, ffn = h.frozen_ffn or h.ffn, tied_embeddings = false }
end

return {
  summary = "a decoder with a frozen reference or teacher, for DPO and distillation",
  schema = { frozen_depth = size "layers", frozen_hidden = size "width", frozen_heads = size "heads",
    frozen_kv_heads = size "key heads", frozen_ffn = size "width of the MLP" },
  build = function(h)
    h.norm, h.position, h.gated_mlp = "rms_norm", "rope", true
    local sizes = sizes_of(h)
    local function tokens(c) return c.seq * sizes.hidden / c.hidden end -- of the trained model's width
    local function both(c) return tokens(c) + c.seq end -- a stage also sends the trained model's stream
    local other = blocks.dense_layers(h)
    other[1].count = h.frozen_depth or h.layers
    table.insert(other, 1, blocks.embedding(h))
    table.insert(other, blocks.head(h))
    local layers = { blocks.embedding(h) }
    for _, layer in ipairs(blocks.forward_only(other, sizes)) do
      layer.sends, layer.reads = both, tokens
      layers[#layers + 1] = layer
    end
    layers[#layers].sends = nil -- its logits stay; the stream is the trained model's again
    for _, layer in ipairs(blocks.dense_layers(h)) do layers[#layers + 1] = layer end
    layers[#layers + 1] = blocks.head(h)
    return { layers = layers }
  end,
}

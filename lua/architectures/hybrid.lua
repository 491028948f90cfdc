--- Layers of one block each, between a norm and the residual: Mamba and Mamba-2 (Gu & Dao), Nemotron-H (NVIDIA 2025).
--- layer_types names each block: mamba, mamba2, linear_attention, full_attention, mlp or moe.
local blocks = require "ett.model.blocks"

return function(hyper)
  hyper.layer_types = hyper.layer_types or { "mamba2" }
  hyper.norm = hyper.norm or "rms_norm"
  hyper.position = hyper.position or "none"
  if hyper.gated_mlp == nil then hyper.gated_mlp = false end
  hyper.ffn = hyper.ffn or 4 * hyper.hidden
  local layers = blocks.runs(hyper, function(i)
    local kind = blocks.type_of(hyper, i)
    return (kind == "mlp" or kind == "moe") and kind or "block"
  end, function(name, seen)
    local block = name == "mlp" and blocks.dense_feed(seen) or name == "moe" and blocks.moe_feed(seen)
      or blocks.join(blocks.attention_region(seen), blocks.leave)
    return blocks.join(hyper.norm, block, blocks.residual(hyper))
  end)
  return blocks.decoder(hyper, table.unpack(layers))
end

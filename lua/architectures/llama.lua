--- Llama decoder (Touvron et al. 2023): RMS norm, rotary positions, gated MLP, grouped queries.
local blocks = require "ett.model.blocks"

return function(hyper)
  hyper.norm = hyper.norm or "rms_norm"
  hyper.position = hyper.position or "rope"
  if hyper.gated_mlp == nil then hyper.gated_mlp = true end
  -- Two thirds of 4 h, rounded up to a multiple of 256, as in the first Llama.
  hyper.ffn = hyper.ffn or (8 * hyper.hidden // 3 + 255) // 256 * 256
  return blocks.decoder(hyper, table.unpack(blocks.dense_layers(hyper)))
end

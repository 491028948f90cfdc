--- GPT-2 and GPT-3 decoder (Brown et al. 2020), GPT-J and GPT-NeoX with parallel_block and rope.
local blocks = require "ett.model.blocks"

return function(hyper)
  hyper.norm = hyper.norm or "layer_norm"
  hyper.position = hyper.position or "learned"
  if hyper.bias == nil then hyper.bias = true end
  if hyper.tied_embeddings == nil then hyper.tied_embeddings = true end
  return blocks.decoder(hyper, table.unpack(blocks.dense_layers(hyper)))
end

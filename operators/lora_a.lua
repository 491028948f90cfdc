--- The first product of a LoRA adapter: from the inputs of a frozen layer to the rank (Hu et al. 2021,
--- arXiv 2106.09685). ett.step.frozen computes the shape for each target layer.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "lora_a", summary = "LoRA adapter, inputs to rank" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden, out_features = c.lora_rank or 16 }
end

gemm.define(op)

return op

--- The second product of a LoRA adapter: from the rank to the outputs of a frozen layer (Hu et al. 2021,
--- arXiv 2106.09685). ett.step.frozen computes the shape for each target layer.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "lora_b", summary = "LoRA adapter, rank to outputs" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.lora_rank or 16, out_features = c.hidden }
end

gemm.define(op)

return op

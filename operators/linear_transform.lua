--- A square linear layer outside tensor parallelism: BERT's pooler and the transform of its language-model head.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_transform", summary = "linear of the stream's width, whole on each rank" }

function op.shape(c)
  return { tokens = shapes.norm_tokens(c), in_features = c.hidden, out_features = c.hidden, bias = 1 }
end

return gemm.define(op)

--- MLP down projection, row-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_down", summary = "MLP down projection, row-parallel", region = "leave" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = shapes.local_ffn(c), out_features = c.hidden,
    bias = shapes.bias(c, "mlp_bias") }
end

gemm.define(op)

return op

--- Attention output projection, row-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_proj", summary = "attention output projection, row-parallel", region = "leave" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = shapes.local_heads(c) * shapes.head_dim(c),
    out_features = c.hidden, bias = shapes.bias(c, "attention_bias") }
end

gemm.define(op)

return op

--- Attention output projection, row-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_proj", aliases = { "linear2" }, summary = "attention output projection, row-parallel",
  region = "leave" }

function op.shape(c)
  local rows = c.reference and c.hidden // c.tp or shapes.local_heads(c) * shapes.head_dim(c)
  return { tokens = shapes.tokens(c), in_features = rows, out_features = c.hidden,
    bias = shapes.bias(c, "attention_bias") }
end

gemm.define(op)
op.reference = shapes.reference(op, { "mp", "b", "l", "dim" }, { "linear2" })

return op

--- MLP down projection, row-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_down", aliases = { "linear4" }, summary = "MLP down projection, row-parallel",
  region = "leave" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = shapes.local_ffn(c), out_features = c.hidden,
    bias = shapes.bias(c, "mlp_bias") }
end

gemm.define(op)
op.reference = shapes.reference(op, { "mp", "b", "l", "dim" }, { "linear4" })

return op

--- MLP up projection, column-parallel. A gated MLP computes gate and up in one product of twice the width.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_up", summary = "MLP up (and gate) projection, column-parallel", region = "enter" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden,
    out_features = shapes.local_ffn(c) * (c.gated_mlp and 2 or 1),
    bias = shapes.bias(c, "mlp_bias"), stored_tokens = c.sequence_parallel and shapes.norm_tokens(c) or nil }
end

function op.parts(c) return c.gated_mlp and { shapes.local_ffn(c), shapes.local_ffn(c) } or {} end

gemm.define(op)

return op

--- MLP up projection, column-parallel. A gated MLP computes gate and up in one product of twice the width.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

return gemm.linear({ name = "linear_up", summary = "MLP up (and gate) projection, column-parallel", region = "enter",
  parts = function(c) return c.gated_mlp and { shapes.local_ffn(c), shapes.local_ffn(c) } or {} end },
  { place = "enter", inputs = "hidden", bias = { "mlp_bias" },
    outputs = function(c) return shapes.local_ffn(c) * (c.gated_mlp and 2 or 1) end })

--- MLP down projection, row-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

return gemm.linear({ name = "linear_down", summary = "MLP down projection, row-parallel", region = "leave" },
  { place = "inside", inputs = shapes.local_ffn, outputs = "hidden", bias = { "mlp_bias" } })

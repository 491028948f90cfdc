--- Attention output projection, row-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

return gemm.linear({ name = "linear_proj", summary = "attention output projection, row-parallel", region = "leave" },
  { place = "inside", inputs = function(c) return shapes.local_heads(c) * shapes.head_dim(c) end, outputs = "hidden",
    bias = { "attention_bias" } })

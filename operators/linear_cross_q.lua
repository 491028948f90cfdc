--- Queries of cross-attention, column-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

return gemm.linear({ name = "linear_cross_q", summary = "queries of cross-attention, column-parallel",
  region = "enter" },
  { place = "enter", inputs = "hidden", bias = { "qkv_bias", "attention_bias" },
    outputs = function(c) return shapes.local_heads(c) * shapes.head_dim(c) end })

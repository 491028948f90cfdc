--- Queries of cross-attention, column-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_cross_q", summary = "queries of cross-attention, column-parallel", region = "enter" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden,
    out_features = shapes.local_heads(c) * shapes.head_dim(c), bias = shapes.bias(c, "qkv_bias", "attention_bias"),
    stored_tokens = c.sequence_parallel and shapes.norm_tokens(c) or nil }
end

return gemm.define(op)

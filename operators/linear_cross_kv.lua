--- Keys and values of cross-attention from the encoder's output, column-parallel over tensor ranks. All decoder layers
--- of a stage share that output (`shares` of a layer), so no layer stores a copy.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_cross_kv", summary = "keys and values of cross-attention, column-parallel",
  region = "enter" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden,
    out_features = 2 * shapes.local_kv_heads(c) * shapes.head_dim(c),
    bias = shapes.bias(c, "qkv_bias", "attention_bias") }
end

function op.parts(c)
  local keys = shapes.local_kv_heads(c) * shapes.head_dim(c)
  return { keys, keys }
end

function op.model_flops(s, c) return gemm.flops(s, "forward") * shapes.kv_share(c) end

function op.activation_bytes() return 0 end

return gemm.define(op)

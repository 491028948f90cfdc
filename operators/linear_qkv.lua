--- QKV projection, column-parallel over tensor ranks; grouped-query attention has fewer keys and values. The output
--- gate of Qwen3-Next has the width of the queries.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_qkv", summary = "QKV projection, column-parallel", region = "enter" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden,
    out_features = (shapes.local_heads(c) * (c.attention_gate and 2 or 1) + 2 * shapes.local_kv_heads(c))
      * shapes.head_dim(c),
    bias = shapes.bias(c, "qkv_bias", "attention_bias"),
    stored_tokens = c.sequence_parallel and shapes.norm_tokens(c) or nil }
end

function op.parts(c)
  local dim = shapes.head_dim(c)
  local keys = shapes.local_kv_heads(c) * dim
  return { shapes.local_heads(c) * (c.attention_gate and 2 or 1) * dim, keys, keys }
end

gemm.define(op)

return op

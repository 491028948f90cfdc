--- QKV projection, column-parallel over tensor ranks; grouped-query attention has fewer keys and values. The output
--- gate of Qwen3-Next has the width of the queries; a gate per head adds one column a head (Step-3.5).
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_qkv", summary = "QKV projection, column-parallel", region = "enter" }

-- Widths of queries with their gate, keys and values.
local function widths(c)
  local dim, heads, kv = shapes.head_dim(c), shapes.local_heads(c), shapes.local_kv_heads(c)
  return heads * dim * (c.attention_gate and 2 or 1) + (c.head_gate and heads or 0), kv * dim,
    kv * (c.v_head_dim or dim)
end

function op.shape(c)
  local queries, keys, values = widths(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden, out_features = queries + keys + values,
    bias = shapes.bias(c, "qkv_bias", "attention_bias"),
    stored_tokens = c.sequence_parallel and shapes.norm_tokens(c) or nil }
end

function op.parts(c) return { widths(c) } end

gemm.define(op)

return op

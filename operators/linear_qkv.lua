--- QKV projection, column-parallel over tensor ranks; grouped-query attention has fewer keys and values. The output
--- gate of Qwen3-Next has the width of the queries; a gate per head adds one column a head (Step-3.5). Layers of
--- Gemma 3n and 4 may borrow keys and values, or take their keys as values.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

-- Widths of queries with their gate, keys and values.
local function widths(c)
  local dim, heads, kv = shapes.head_dim(c), shapes.local_heads(c), shapes.local_kv_heads(c)
  local keys, values = c.borrowed_keys and 0 or kv * dim, kv * (c.v_head_dim or dim)
  return heads * dim * (c.attention_gate and 2 or 1) + (c.head_gate and heads or 0), keys,
    (c.borrowed_keys or c.keys_as_values) and 0 or values
end

local function parts(c) return { widths(c) } end

local function outputs(c)
  local queries, keys, values = widths(c)
  return queries + keys + values
end

--- Model FLOPs count keys and values without the replicas of tensor ranks.
local function model_flops(s, c)
  local _, keys, values = widths(c)
  return gemm.flops(s, "forward") * (1 - (keys + values) * (1 - shapes.kv_share(c)) / s.out_features)
end

return gemm.linear({ name = "linear_qkv", summary = "QKV projection, column-parallel", region = "enter",
  parts = parts, model_flops = model_flops },
  { place = "enter", inputs = "hidden", bias = { "qkv_bias", "attention_bias" }, outputs = outputs })

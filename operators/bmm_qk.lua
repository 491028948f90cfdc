--- Scores of unfused attention: queries times keys, one product per head.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "bmm_qk", family = "bmm",
  summary = "queries times keys of unfused attention", selective = true, attends = true }

op.schema = { batch = "count", tokens = "count", in_features = "count", out_features = "count" }

function op.shape(c)
  local heads, _, rows = shapes.attention(c)
  return { batch = c.micro_batch * heads, tokens = rows,
    in_features = shapes.head_dim(c), out_features = c.seq }
end

function op.parameters() return 0 end

--- Stores queries and keys.
function op.activation_bytes(s, dtype)
  return (width(dtype) + 0.0) * s.batch * (s.tokens + s.out_features) * s.in_features
end

op.recomputed_bytes = op.activation_bytes

return gemm.define(op)

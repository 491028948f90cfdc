--- Scores of unfused attention: queries times keys, one product a head.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "bmm_qk", family = "bmm",
  summary = "queries times keys of unfused attention", selective = true }

op.schema = { batch = "count", tokens = "count", in_features = "count", out_features = "count" }

function op.shape(c)
  return { batch = c.micro_batch * shapes.local_heads(c), tokens = shapes.divide("seq", c.seq, "cp", c.cp or 1),
    in_features = shapes.head_dim(c), out_features = c.seq }
end

function op.parameters() return 0 end

--- Keeps queries and keys.
function op.activation_bytes(s, dtype)
  return (width(dtype) + 0.0) * s.batch * (s.tokens + s.out_features) * s.in_features
end

op.recomputed_bytes = op.activation_bytes

gemm.define(op)

return op

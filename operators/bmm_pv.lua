--- Output of unfused attention: probabilities times values, one product per head.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "bmm_pv", family = "bmm",
  summary = "probabilities times values of unfused attention", selective = true }

op.schema = { batch = "count", tokens = "count", in_features = "count", out_features = "count" }

function op.shape(c)
  local heads, _, rows = shapes.attention(c)
  return { batch = c.micro_batch * heads, tokens = rows,
    in_features = c.seq, out_features = c.v_head_dim or shapes.head_dim(c) }
end

function op.parameters() return 0 end

--- Stores the values. The preceding softmax or dropout stores the probabilities.
function op.activation_bytes(s, dtype)
  return (width(dtype) + 0.0) * s.batch * s.in_features * s.out_features
end

op.recomputed_bytes = op.activation_bytes

return gemm.define(op)

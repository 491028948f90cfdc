--- The single key of the lightning indexer, and its head weights, from the residual stream (DeepSeek-V3.2-Exp, 2.1).
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_index_k", summary = "key and head weights of the lightning indexer" }

function op.shape(c)
  shapes.need(c, op.name, "index_heads", "index_head_dim")
  return { tokens = shapes.norm_tokens(c), in_features = c.hidden, out_features = c.index_head_dim + c.index_heads }
end

return gemm.define(op)

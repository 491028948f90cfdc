--- Keys and values alone: attention whose queries have a projection of their own. Replicated on every tensor rank,
--- outside the tensor-parallel region (multi-matrix factorization attention, arXiv 2412.19255: one head of keys).
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_key_value", summary = "keys and values of all heads, replicated" }

function op.shape(c)
  return { tokens = shapes.norm_tokens(c), in_features = c.hidden, out_features = 2 * c.kv_heads * shapes.head_dim(c) }
end

return gemm.define(op)

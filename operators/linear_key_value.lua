--- Keys and values alone: attention whose queries have a projection of their own. Replicated on every tensor rank,
--- outside the tensor-parallel region (multi-matrix factorization attention, arXiv 2412.19255: one head of keys).
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local function parts(c) return { c.kv_heads * shapes.head_dim(c), c.kv_heads * shapes.head_dim(c) } end

return gemm.linear({ name = "linear_key_value", summary = "keys and values of all heads, replicated", parts = parts },
  { place = "outside", inputs = "hidden", outputs = function(c) return 2 * c.kv_heads * shapes.head_dim(c) end })

--- The single key of the lightning indexer, and its head weights, from the residual stream (DeepSeek-V3.2-Exp, 2.1).
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "linear_index_k", summary = "key and head weights of the lightning indexer" },
  { place = "outside", needs = { "index_heads", "index_head_dim" }, inputs = "hidden",
    outputs = function(c) return c.index_head_dim + c.index_heads end })

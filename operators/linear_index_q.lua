--- Queries of the lightning indexer from the compressed queries (DeepSeek-V3.2-Exp, section 2.1). Replicated on tp
--- ranks.
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "linear_index_q", summary = "queries of the lightning indexer" },
  { place = "outside", needs = { "index_heads", "index_head_dim" },
    inputs = function(c) return c.q_lora_rank or c.hidden end,
    outputs = function(c) return c.index_heads * c.index_head_dim end })

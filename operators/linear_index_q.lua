--- Queries of the lightning indexer from the compressed queries (DeepSeek-V3.2-Exp, section 2.1). Replicated on tp
--- ranks.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_index_q", summary = "queries of the lightning indexer" }

function op.shape(c)
  shapes.need(c, op.name, "index_heads", "index_head_dim")
  return { tokens = shapes.norm_tokens(c), in_features = c.q_lora_rank or c.hidden,
    out_features = c.index_heads * c.index_head_dim }
end

return gemm.define(op)

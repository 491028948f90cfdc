--- Queries of the local heads from the compressed queries, or from the residual stream without q_lora_rank:
-- multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). Column-parallel.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

return gemm.linear({ name = "linear_q_up", aliases = { "q_b_proj" },
  summary = "queries of local heads, multi-head latent attention" },
  { place = "enter", needs = { "qk_nope_head_dim", "qk_rope_head_dim" },
    inputs = function(c) return c.q_lora_rank or c.hidden end,
    outputs = function(c) return shapes.local_heads(c) * (c.qk_nope_head_dim + c.qk_rope_head_dim) end })

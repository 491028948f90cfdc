--- Keys and values of the local heads from the compressed vector: multi-head latent attention
-- (DeepSeek-V2, arXiv 2405.04434, section 2.1). Column-parallel.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_kv_up", aliases = { "kv_b_proj" },
  summary = "keys and values of local heads, multi-head latent attention" }

function op.shape(c)
  shapes.need(c, op.name, "kv_lora_rank", "qk_nope_head_dim", "v_head_dim")
  return { tokens = shapes.tokens(c), in_features = c.kv_lora_rank,
    out_features = shapes.local_heads(c) * (c.qk_nope_head_dim + c.v_head_dim),
    stored_tokens = c.sequence_parallel and shapes.norm_tokens(c) or nil }
end

return gemm.define(op)

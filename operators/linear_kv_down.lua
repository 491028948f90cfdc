--- Compression of keys and values, plus the rotary key shared by all heads: multi-head latent attention (DeepSeek-V2,
-- arXiv 2405.04434, section 2.1). Replicated on every tensor rank, outside the tensor-parallel region.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_kv_down", aliases = { "kv_a_proj_with_mqa" },
  summary = "compression of keys and values, multi-head latent attention" }

function op.shape(c)
  shapes.need(c, op.name, "kv_lora_rank", "qk_rope_head_dim")
  return { tokens = shapes.norm_tokens(c), in_features = c.hidden,
    out_features = c.kv_lora_rank + c.qk_rope_head_dim, bias = shapes.bias(c, "attention_bias") }
end

return gemm.define(op)

--- Compression of keys and values, plus the rotary key shared by all heads: multi-head latent attention (DeepSeek-V2,
-- arXiv 2405.04434, section 2.1). Replicated on every tensor rank, outside the tensor-parallel region.
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "linear_kv_down", aliases = { "kv_a_proj_with_mqa" },
  summary = "compression of keys and values, multi-head latent attention" },
  { place = "outside", needs = { "kv_lora_rank", "qk_rope_head_dim" }, inputs = "hidden", bias = { "attention_bias" },
    outputs = function(c) return c.kv_lora_rank + c.qk_rope_head_dim end })

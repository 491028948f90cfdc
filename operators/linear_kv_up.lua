--- Keys and values of the local heads from the compressed vector: multi-head latent attention
-- (DeepSeek-V2, arXiv 2405.04434, section 2.1). Column-parallel.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

return gemm.linear({ name = "linear_kv_up", aliases = { "kv_b_proj" },
  summary = "keys and values of local heads, multi-head latent attention" },
  { place = "enter", needs = { "kv_lora_rank", "qk_nope_head_dim", "v_head_dim" }, inputs = "kv_lora_rank",
    outputs = function(c) return shapes.local_heads(c) * (c.qk_nope_head_dim + c.v_head_dim) end })

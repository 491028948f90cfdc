--- Compression of the queries of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
-- Replicated on every tensor rank, outside the tensor-parallel region.
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "linear_q_down", aliases = { "q_a_proj" },
  summary = "compression of queries, multi-head latent attention" },
  { place = "outside", needs = { "q_lora_rank" }, inputs = "hidden", outputs = "q_lora_rank",
    bias = { "attention_bias" } })

--- Compression of the queries of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
-- Replicated on every tensor rank, outside the tensor-parallel region.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_q_down", aliases = { "q_a_proj" },
  summary = "compression of queries, multi-head latent attention" }

function op.shape(c)
  shapes.need(c, op.name, "q_lora_rank")
  return { tokens = shapes.norm_tokens(c), in_features = c.hidden, out_features = c.q_lora_rank,
    bias = shapes.bias(c, "attention_bias") }
end

return gemm.define(op)

--- Expansion of the narrow experts' sum to the residual stream's width (LatentMoE, Nemotron 3 Super). Replicated on
--- every tensor rank.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_latent_up", aliases = { "fc2_latent_proj" },
  summary = "expansion of narrow experts' outputs" }

function op.shape(c)
  shapes.need(c, op.name, "moe_latent")
  return { tokens = shapes.norm_tokens(c), in_features = c.moe_latent, out_features = c.hidden,
    bias = shapes.bias(c, "mlp_bias") }
end

return gemm.define(op)

--- Compression of tokens before their experts (LatentMoE, Nemotron 3 Super): the all-to-all and the experts have the
--- narrower width. Replicated on every tensor rank.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_latent_down", aliases = { "fc1_latent_proj" },
  summary = "compression of tokens before narrow experts" }

function op.shape(c)
  shapes.need(c, op.name, "moe_latent")
  return { tokens = shapes.norm_tokens(c), in_features = c.hidden, out_features = c.moe_latent,
    bias = shapes.bias(c, "mlp_bias") }
end

return gemm.define(op)

--- Expansion of the narrow experts' sum to the residual stream's width (LatentMoE, Nemotron 3 Super). Replicated on
--- every tensor rank.
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "linear_latent_up", aliases = { "fc2_latent_proj" },
  summary = "expansion of narrow experts' outputs" },
  { place = "outside", needs = { "moe_latent" }, inputs = "moe_latent", outputs = "hidden", bias = { "mlp_bias" } })

--- Compression of tokens before their experts (LatentMoE, Nemotron 3 Super): the all-to-all and the experts have the
--- narrower width. Replicated on every tensor rank.
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "linear_latent_down", aliases = { "fc1_latent_proj" },
  summary = "compression of tokens before narrow experts" },
  { place = "outside", needs = { "moe_latent" }, inputs = "hidden", outputs = "moe_latent", bias = { "mlp_bias" } })

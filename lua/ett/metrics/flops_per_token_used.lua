--- FLOPs per token that the token estimates use.
local tokens = require "ett.trace.tokens"

return {
  name = "flops_per_token_used",
  summary = "FLOPs per token by which tokens are estimated",
  definition = "6 x parameters when training, 2 x for inference (card's phase), or --flops-per-token.",
  needs = "--model-params, num_params in the card, or --flops-per-token",
  units = { flops_per_token_used = "flop/token" },
  options = { "model_params", "flops_per_token" },
  differs = "the public tool takes 7e9 parameters when none are given",
  compute = function(view, options)
    local value, how = tokens.flops_per_token(view, options)
    return { flops_per_token_used = value, how = how }
  end,
}

--- FLOPs per token that the token estimates use.
local totals = require "ett.trace.totals"

return {
  name = "flops_per_token_used",
  summary = "FLOPs per token that the estimates of tokens use",
  definition = "6 x parameters in training, 2 x in inference (the card's phase), or --flops-per-token.",
  needs = "--model-params, num_params in the card, or --flops-per-token",
  units = { flops_per_token_used = "flop/token" },
  options = { "model_params", "flops_per_token" },
  differs = "the public tool assumes 7e9 parameters when none are given",
  compute = function(view)
    local value, how = totals.flops_per_token(view)
    return { flops_per_token_used = value, how = how }
  end,
}

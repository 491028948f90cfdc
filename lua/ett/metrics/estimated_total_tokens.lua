--- Tokens, estimated from the trace's FLOPs.
local totals = require "ett.trace.totals"

return {
  name = "estimated_total_tokens",
  summary = "tokens processed, from the rows' model_flops",
  definition = "Sum of model_flops over all cores / flops_per_token_used.",
  needs = "device rows with model_flops (TPU traces), --model-params",
  units = { estimated_total_tokens = "tokens" },
  args = totals.args,
  options = { "model_params", "flops_per_token" },
  differs = "the public tool assumes 7e9 parameters when none are given, and always 6 FLOPs each",
  compute = function(view)
    local found = totals.tokens(view)
    return { estimated_total_tokens = found.tokens, total_model_flops = found.flops,
      flops_per_token_used = found.flops_per_token, how = found.how }
  end,
}

--- Tokens per second, estimated from the trace's FLOPs.
local stats = require "ett.trace.stats"
local totals = require "ett.trace.totals"

return {
  name = "estimated_throughput_tokens_per_s",
  summary = "estimated tokens per second of the wall time",
  definition = "estimated_total_tokens over the mean wall_time_s of the cores.",
  needs = "device rows with model_flops (TPU traces), --model-params",
  units = { estimated_throughput_tokens_per_s = "tokens/s" },
  args = totals.args,
  options = { "model_params", "flops_per_token" },
  differs = "the public tool divides by the span of host and devices together",
  compute = function(view)
    local found = totals.tokens(view)
    return { estimated_throughput_tokens_per_s = stats.ratio(found.tokens, found.wall_s),
      estimated_total_tokens = found.tokens, wall_time_s = found.wall_s, how = found.how }
  end,
}

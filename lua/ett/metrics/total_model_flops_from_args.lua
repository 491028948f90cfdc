--- FLOPs that the rows of a TPU trace state.
local totals = require "ett.trace.totals"

return totals.metric {
  name = "total_model_flops_from_args",
  summary = "sum of the rows' model_flops",
  definition = "Sum of model_flops over the device rows of each core; sum over cores.",
  needs = "device rows with model_flops (TPU traces)",
  unit = "flop",
  args = totals.args,
  differs = "none: the public tool adds the same argument",
  fold = "sum",
  lacking = totals.no_flops,
  value = function(lane) return lane:model_flops() end,
}

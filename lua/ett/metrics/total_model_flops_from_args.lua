--- FLOPs that the rows of a TPU trace state.
local totals = require "ett.trace.totals"

return {
  name = "total_model_flops_from_args",
  summary = "sum of the rows' model_flops",
  definition = "Sum of model_flops over the device rows of each core; sum over cores.",
  needs = "device rows with model_flops (TPU traces)",
  units = { total_model_flops_from_args = "flop" },
  args = totals.args,
  differs = "none: the public tool adds up the same argument",
  compute = function(view)
    local out = totals.per_device(view, "total_model_flops_from_args", "sum",
      function(lane) return lane:model_flops() end)
    if out.total_model_flops_from_args == require("ett.trace.stats").null then
      view:missing("needs the argument model_flops on device rows; no row has it")
    end
    return out
  end,
}

--- Number of communication kernels.
local totals = require "ett.trace.totals"

return {
  name = "num_comm_kernels",
  summary = "communication kernels run, over all devices",
  definition = "Device rows that are communication; sum over devices.",
  needs = "device rows",
  units = { num_comm_kernels = "count" },
  args = { "hlo_category", "long_name" },
  differs = "the public tool counts every row, host included, whose name or category holds a collective's name",
  compute = function(view)
    return totals.per_device(view, "num_comm_kernels", "sum", function(lane) return #lane:rows("comm") end)
  end,
}

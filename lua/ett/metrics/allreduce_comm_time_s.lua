--- Time in all-reduces.
local collective = require "ett.trace.collective"
local totals = require "ett.trace.totals"

local function is_all_reduce(each) return each.kind == "AllReduce" end

return {
  name = "allreduce_comm_time_s",
  summary = "time with an all-reduce running",
  definition = "As total_comm_time_s, of the collectives whose kind is AllReduce; mean over devices.",
  needs = "device rows",
  units = { allreduce_comm_time_s = "s" },
  args = collective.args,
  differs = "the public tool goes by the op's name and so misses JAX's psum",
  compute = function(view)
    return totals.per_device(view, "allreduce_comm_time_s", "mean",
      function(lane) return view:s(lane:comm_ticks(is_all_reduce)) end)
  end,
}

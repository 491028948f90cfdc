--- Time in all-reduces.
local collective = require "ett.trace.collective"

local function is_all_reduce(each) return each.kind == "all_reduce" end

return require("ett.trace.totals").metric {
  name = "allreduce_comm_time_s",
  summary = "time with an all-reduce running",
  definition = "As total_comm_time_s, for collectives of kind all_reduce only; mean over devices.",
  needs = "device rows",
  unit = "s",
  args = collective.args,
  differs = "the public tool matches the op's name and misses JAX's psum",
  value = function(lane, view) return view:s(lane:comm_ticks(is_all_reduce)) end,
}

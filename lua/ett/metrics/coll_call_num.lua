--- Number of collectives.
local collective = require "ett.trace.collective"
local stats = require "ett.trace.stats"

return {
  name = "coll_call_num",
  summary = "number of collective calls, in total, per rank and by kind",
  definition = [[Device rows that are communication, each counted once. calls_by_type counts by the collective's kind
(argument, else enclosing annotation, else kernel name), calls_by_kernel_type by the kernel alone. An NCCL all-to-all is
all_to_all in the first and send_recv in the second. annotations: host nccl:* ranges.]],
  needs = "device rows",
  units = { total_calls = "count", calls_per_rank = "count", calls_by_type = "count" },
  args = collective.args,
  differs = "the public tool also counts the host rows and the annotations of the same call: 3 to 4 times as many",
  compute = function(view)
    local out = { total_calls = 0, calls_per_rank = {}, calls_by_type = {}, calls_by_kernel_type = {},
      annotations = {} }
    for _, lane in ipairs(view:lanes()) do
      local calls, all = 0, lane:kinds()
      local counts = all.sequence:totals()
      for n, each in ipairs(all.sorts) do
        calls = calls + counts[n]
        stats.count(out.calls_by_type, each.kind, counts[n])
        stats.count(out.calls_by_kernel_type, each.kernel_type, counts[n])
      end
      out.total_calls, out.calls_per_rank[lane.key] = out.total_calls + calls, calls
      out.annotations[lane.key] = view:library_ranges(lane.process)
    end
    return out
  end,
}

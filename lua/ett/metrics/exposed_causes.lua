--- Exposed communication attributed to transfers and to late ranks.
local by = require "ett.base.by"
local collective = require "ett.trace.collective"
local exposed = require "ett.trace.exposed"
local stats = require "ett.trace.stats"

return {
  name = "exposed_causes",
  summary = "exposed communication, attributed to transfers and to late ranks",
  definition = [[Exposed communication |C| - |C n K| of every device. If a collective is matched over its ranks, the
part before the last rank's start is waiting, charged to that rank; the rest is transfer. Time of unmatched
collectives is unexplained; waiting for a rank that is not in the trace counts as transfer. Concurrent collectives
share their time. exposed_ms and its parts are sums over the devices; temporal_breakdown's exposed_comm_ms is the mean
of the same times.]],
  needs = "device rows of at least two ranks that ran the same collectives",
  units = { exposed_ms = "ms", waiting_ms = "ms", transfer_ms = "ms", unexplained_ms = "ms", caused_ms = "ms",
    waited_ms = "ms", waiting_share = "share", share = "share" },
  args = collective.args,
  options = { "align", "tolerance_us" },
  compute = function(view)
    local total, lanes = exposed.causes(view, true), view:lanes()
    local ranks, kinds = {}, stats.list()
    for _, lane in ipairs(lanes) do
      local caused = total.ranks[lane.key] or 0
      ranks[lane.key] = { caused_ms = view:ms(caused), waited_ms = view:ms(total.waiting[lane.key] or 0),
        share = stats.ratio(caused, total.wait) }
    end
    for _, row in pairs(total.kinds) do
      kinds[#kinds + 1] = { name = row.name, group = row.group, count = row.count, waiting_ms = view:ms(row.wait),
        transfer_ms = view:ms(row.transfer) }
    end
    table.sort(kinds, by(function(row) return -(row.waiting_ms + row.transfer_ms) end, "name"))
    return { headline = total.headline, exposed_ms = view:ms(total.whole), waiting_ms = view:ms(total.wait),
      transfer_ms = view:ms(total.transfer), unexplained_ms = view:ms(total.whole - total.wait - total.transfer),
      waiting_share = stats.ratio(total.wait, total.whole), ranks = ranks, collectives = kinds }
  end,
}

--- Collectives by kind, size and group, with their bandwidths.
local by = require "ett.base.by"
local collective = require "ett.trace.collective"
local comm = require "ett.trace.comm"
local sequence = require "ett.sequence"
local stats = require "ett.trace.stats"
local table_at = require "ett.base.table_at"

--- Number of the group with a collective's kind, bytes and group size; adds a new group to the list.
local function group_of(by_kind, each, groups)
  local sizes = table_at(table_at(by_kind, each.kind), each.bytes or -1)
  local number = sizes[each.group_size or -1]
  if not number then
    number = #groups + 1
    sizes[each.group_size or -1] = number
    groups[number] = { first = each, lanes = {}, transfers = {} }
  end
  return number
end

return {
  name = "collective_table",
  summary = "collectives by kind, message size and group, with algorithm and bus bandwidth",
  definition = [[Over all devices, by kind, message bytes and group size: calls, total and mean time, p50 and
p95 (value at position floor(p n)), algbw = S x calls / time, busbw = algbw x factor. S and the factors are
nccl-tests': 2 (n - 1) / n for all-reduce, (n - 1) / n for gathers, scatters and all-to-all, 1 for broadcast, reduce
and sends.
Times are kernel durations and include waiting for the last rank. *_without_waiting_GBps use the transfer times
of the calls matched over their ranks (first end - last start, as in straggler_lag). transfer_p50_us is their
median. n/a where bytes or group size are unknown, or the ranks were not matched.]],
  needs = "device rows with communication",
  units = { bytes = "bytes", total_ms = "ms", mean_us = "us", algbw_GBps = "GB/s", busbw_GBps = "GB/s",
    algbw_without_waiting_GBps = "GB/s", busbw_without_waiting_GBps = "GB/s", transfer_p50_us = "us" },
  options = { "align", "tolerance_us" },
  args = collective.args,
  compute = function(view)
    local by_kind, groups, parts, lanes = {}, {}, {}, view:lanes()
    for i, lane in ipairs(lanes) do
      local all, homes = lane:collectives(), {}
      for n, each in ipairs(all.sorts) do
        homes[n] = group_of(by_kind, each, groups)
        groups[homes[n]].lanes[lane.key] = true
      end
      parts[i] = { all.sequence, homes }
    end
    for n, spread in ipairs(sequence.spreads(parts, #groups)) do groups[n].times = spread end
    for _, found in ipairs(#lanes > 1 and view:transfers() or {}) do
      local all = groups[group_of(by_kind, found.each, groups)].transfers
      table.move(found.ticks, 1, #found.ticks, #all + 1, all)
    end
    local rows = {}
    table.sort(groups, by(function(group) return group.first.kind end,
      function(group) return group.first.bytes or -1 end, function(group) return group.first.group_size or -1 end))
    for _, group in ipairs(groups) do
      local first, times = group.first, group.times
      local total, n = times.total, times.count
      local algbw = first.bytes and total > 0 and first.bytes * n / view:s(total) / 1e9 or nil
      local factor = comm.bus_factor(first.kind, first.group_size)
      rows[#rows + 1] = {
        kind = first.kind, bytes = stats.known(first.bytes), group_size = stats.known(first.group_size), calls = n,
        devices = #stats.keys(group.lanes), total_ms = view:ms(total), mean_us = view:us(total) / n,
        min_us = view:us(times.min), p50_us = view:us(times.p50), p95_us = view:us(times.p95),
        max_us = view:us(times.max),
        algbw_GBps = stats.known(algbw), busbw_GBps = algbw and factor and algbw * factor or stats.null,
      }
      local transfers = group.transfers
      local without = first.bytes and #transfers > 0 and first.bytes * #transfers
        / view:s(stats.sum(transfers)) / 1e9 or nil
      rows[#rows].transfer_p50_us = #transfers > 0 and view:us(stats.median(transfers)) or stats.null
      rows[#rows].algbw_without_waiting_GBps = stats.known(without)
      rows[#rows].busbw_without_waiting_GBps = without and factor and without * factor or stats.null
    end
    if #rows == 0 then view:missing_communication() end
    return { collectives = rows }
  end,
}

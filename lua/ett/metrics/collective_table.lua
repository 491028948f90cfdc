--- Collectives by kind, size and group, with their bandwidths.
local collective = require "ett.trace.collective"
local comm = require "ett.trace.comm"
local stats = require "ett.trace.stats"

--- The group of a collective's kind, bytes and group size; a new one is added to the list.
local function group_of(by_kind, each, groups)
  local kinds = by_kind[each.kind] or {}
  by_kind[each.kind] = kinds
  local sizes = kinds[each.bytes or -1] or {}
  kinds[each.bytes or -1] = sizes
  local group = sizes[each.group_size or -1]
  if not group then
    group = { first = each, times = {}, lanes = {} }
    sizes[each.group_size or -1] = group
    groups[#groups + 1] = group
  end
  return group
end

--- Adds the transfer times of the matched collectives to the groups of the table.
local function add_transfers(view, by_kind)
  for match, ticks in view:transfers() do
    local first = match[1]
    local group = group_of(by_kind, first, {})
    group.transfers = group.transfers or {}
    table.insert(group.transfers, ticks)
  end
end

return {
  name = "collective_table",
  summary = "collectives by kind, message size and group, with algorithm and bus bandwidth",
  definition = [[Over all devices, by kind, message bytes and group size: calls, total and mean time, p50 and
p95 (value at position floor(p n)), algbw = S x calls / time, busbw = algbw x factor. S and the factors are
nccl-tests': 2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather, reduce-scatter and all-to-all, else 1.
Times are kernel durations and include waiting for the last rank. *_without_waiting_GBps use the transfer times
of the calls matched over their ranks (first end - last start, as in straggler_lag). transfer_p50_us is their
median. n/a where bytes or group size are unknown, or the ranks were not matched.]],
  needs = "device rows with communication",
  units = { bytes = "bytes", total_ms = "ms", mean_us = "us", algbw_GBps = "GB/s", busbw_GBps = "GB/s",
    algbw_without_waiting_GBps = "GB/s", busbw_without_waiting_GBps = "GB/s", transfer_p50_us = "us" },
  options = { "align", "tolerance_us" },
  args = collective.args,
  compute = function(view)
    local by_kind, groups, lanes = {}, {}, view:lanes()
    for _, lane in ipairs(lanes) do
      if #lanes > 1 then lane:collectives() end -- other ranks may say the group's size
      for _, same in ipairs(collective.by_sort(lane)) do
        local group = group_of(by_kind, same.each, groups)
        group.lanes[lane.key] = true
        table.move(same.durations, 1, #same.durations, #group.times + 1, group.times)
      end
    end
    if #lanes > 1 then add_transfers(view, by_kind) end
    local rows = {}
    table.sort(groups, function(a, b)
      local x, y = a.first, b.first
      if x.kind ~= y.kind then return x.kind < y.kind end
      if x.bytes ~= y.bytes then return (x.bytes or -1) < (y.bytes or -1) end
      return (x.group_size or -1) < (y.group_size or -1)
    end)
    for _, group in ipairs(groups) do
      local first, sorted = group.first, stats.sorted(group.times)
      local total, n = stats.sum(sorted), #sorted
      local algbw = first.bytes and total > 0 and first.bytes * n / view:s(total) / 1e9 or nil
      local factor = comm.bus_factor(first.kind, first.group_size)
      rows[#rows + 1] = {
        kind = first.kind, bytes = stats.known(first.bytes), group_size = stats.known(first.group_size), calls = n,
        devices = #stats.keys(group.lanes), total_ms = view:ms(total), mean_us = view:us(total) / n,
        min_us = view:us(sorted[1]), p50_us = view:us(stats.percentile(sorted, 0.5)),
        p95_us = view:us(stats.percentile(sorted, 0.95)), max_us = view:us(sorted[n]),
        algbw_GBps = stats.known(algbw), busbw_GBps = algbw and factor and algbw * factor or stats.null,
      }
      local without = first.bytes and group.transfers and first.bytes * #group.transfers
        / view:s(stats.sum(group.transfers)) / 1e9 or nil
      rows[#rows].transfer_p50_us = group.transfers and view:us(stats.median(group.transfers)) or stats.null
      rows[#rows].algbw_without_waiting_GBps = stats.known(without)
      rows[#rows].busbw_without_waiting_GBps = without and factor and without * factor or stats.null
    end
    if #rows == 0 then view:missing_communication() end
    return { collectives = rows }
  end,
}

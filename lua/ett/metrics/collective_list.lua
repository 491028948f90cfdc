--- Single collectives: start on each rank, transfer time, bandwidth.
local align = require "ett.trace.align"
local by = require "ett.base.by"
local collective = require "ett.trace.collective"
local comm = require "ett.trace.comm"
local stats = require "ett.trace.stats"

local function row_of(view, group, match)
  local first = group.members[1].lane:collectives().sorts[match.sort]
  local transfer = match.transfer
  local factor = comm.bus_factor(first.kind, first.group_size)
  local algbw = first.bytes and transfer > 0 and first.bytes / view:s(transfer) / 1e9 or nil
  return { kind = first.kind, group = group.description or group.group, ranks = #group.members,
    bytes = stats.known(first.bytes), start_ms = view:ms(match.start), skew_us = view:us(match.skew),
    last_rank = group.members[match.late].lane.key, transfer_us = transfer > 0 and view:us(transfer) or stats.null,
    longest_us = view:us(match.longest), algbw_GBps = stats.known(algbw),
    busbw_GBps = algbw and factor and algbw * factor or stats.null }
end

return {
  name = "collective_list",
  summary = "every collective over its ranks: start skew, last rank, transfer, bandwidth",
  definition = [[The --top (50) collectives with the longest kernels, of those that are matched over their ranks (as in
straggler_lag). start = first start over the ranks. skew = last start - first start. transfer = first end - last start.
longest is the duration of the longest kernel, waiting included. Bandwidths are bytes over the transfer time.]],
  needs = "device rows of at least two ranks that ran the same collectives",
  units = { start_ms = "ms", skew_us = "us", transfer_us = "us", longest_us = "us", bytes = "bytes",
    algbw_GBps = "GB/s", busbw_GBps = "GB/s" },
  args = collective.args,
  options = { "align", "tolerance_us", "top" },
  compute = function(view, options)
    local lanes, rows, refused, count, top = view:lanes(), {}, nil, 0, options.top or 50
    if #lanes < 2 then view:missing("needs at least two ranks; the trace has one device lane (%s)", lanes[1].key) end
    for _, each in ipairs((view:matched_groups())) do
      if each.result then
        count = count + #each.result.matches
        for _, match in ipairs(each.result.matches:longest(top)) do
          rows[#rows + 1] = row_of(view, each.group, match)
        end
      else
        refused = refused or align.refusal(view, each)
      end
    end
    if #rows == 0 then view:missing("%s", refused or "needs a process group with collectives on two ranks or more") end
    table.sort(rows, by("-longest_us", "start_ms", "group"))
    for i = top + 1, #rows do rows[i] = nil end
    return { collectives = rows, count = count }
  end,
}

--- Compares recorded collectives with their predicted times. If ranks are matched, waiting for the last rank is
--- separated from the transfer.
local names = require "ett.base.collective"
local stats = require "ett.trace.stats"

local wires = {}

--- Placement of a group on the nodes of a cluster: by its ranks if the trace lists them, else as neighbours.
local function topology(each, cluster)
  local size, per_node, on = each.group_size, cluster.gpus_per_node, {}
  local listed = type(each.group_ranks) == "string" and not each.group_ranks:find("...", 1, true)
  local most, nodes = 0, 0
  if listed then
    for rank in each.group_ranks:gmatch("%d+") do
      local node = tonumber(rank) // per_node
      if not on[node] then nodes = nodes + 1 end
      on[node] = (on[node] or 0) + 1
      most = math.max(most, on[node])
    end
  end
  if nodes == 0 then nodes, most = (size + per_node - 1) // per_node, math.min(size, per_node) end
  return { nodes = nodes, gpus_per_node = most, ranks = size }
end

local function row_of(rows, order, each, dimension)
  local id = ("%s %s %s %s"):format(each.kind, tostring(each.bytes), tostring(each.group_size), tostring(dimension))
  local row = rows[id]
  if not row then
    row = { name = each.kind, bytes = each.bytes, group_size = each.group_size, group = dimension, first = each,
      calls = 0,
      ticks = 0, transfers = 0, transfer_ticks = 0 }
    rows[id], order[#order + 1] = row, row
  end
  return row
end

--- Calls by kind, bytes, group size and dimension, over all devices; and the transfers of matched calls.
local function gather(view)
  local rows, order, home, most = {}, {}, {}, {}
  for _, lane in ipairs(view:lane_list()) do
    local found = lane:dimensions()
    local counts, _, ticks = found.sequence:totals()
    for c, case in ipairs(found.cases) do
      local row = row_of(rows, order, case.each, case.dimension)
      row.calls, row.ticks = row.calls + counts[c], row.ticks + ticks[c]
      if counts[c] > (most[case.each] or 0) then home[case.each], most[case.each] = row, counts[c] end
    end
  end
  for _, found in ipairs(view:transfers()) do
    local row = home[found.each]
    row.transfers, row.transfer_ticks = row.transfers + #found.ticks, row.transfer_ticks + stats.sum(found.ticks)
  end
  return order
end

--- Predicted seconds of a recorded collective, and their provenance; nil if bytes or ranks are unknown, or the cluster
--- cannot hold the group.
function wires.predict(each, times, subject)
  local kind = names.find(each.kind)
  if not (kind and each.bytes and each.group_size and each.group_size > 1) then return nil end
  local ok, answer = pcall(times.collective, times, kind, each.bytes, topology(each, subject.cluster),
    subject.plan.dtype)
  if ok then return answer.seconds, answer.provenance end
end

--- Rows: { name, group, group_size, bytes, count (of a device), measured_seconds (mean, with waiting),
--- transfer_seconds, waiting_seconds (nil where ranks are not matched), predicted_seconds, provenance, ratio }.
function wires.compare(view, times, subject)
  local lanes, list = view:lane_list(), {}
  if #lanes == 0 then return list end -- operators on the host
  for _, row in ipairs(gather(view)) do
    local predicted, provenance = wires.predict(row.first, times, subject)
    local measured = view:s(row.ticks) / row.calls
    local transfer = row.transfers > 0 and view:s(row.transfer_ticks) / row.transfers or nil
    list[#list + 1] = { name = row.name, group = row.group, group_size = row.group_size, bytes = row.bytes,
      count = row.calls / #lanes, measured_seconds = measured, transfer_seconds = transfer,
      waiting_seconds = transfer and measured - transfer or nil, predicted_seconds = predicted, provenance = provenance,
      ratio = predicted and predicted / (transfer or measured) or nil }
  end
  return list
end

wires.topology = topology
return wires

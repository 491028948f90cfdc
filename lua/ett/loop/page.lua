--- The page of a trace beside its prediction: below each device a lane of its recorded operators and collectives, and
--- one of their predicted times from the same starts. An operator is as long as its kernels together. A predicted
--- collective begins with its last rank.
local html = require "ett.trace.html"
local lanes = require "ett.trace.page.lanes"
local operators = require "ett.trace.operators"

local page = {}

local compute, communication = 1, 2 -- kinds in lua/ett/trace/page/lanes.lua

--- One label for all executions of a line, or of a sort of collective. The page shows the duration of each execution.
local function label_of(t, name, kind, row)
  local measured = row.transfer_seconds or row.measured_seconds
  return t:label(name, kind, ("mean measured: %.3f us\npredicted: %.3f us\npredicted over measured: %.3f"):format(
    measured * 1e6, row.predicted_seconds * 1e6, row.ratio))
end

--- Adds an execution to both lists: { start, ticks, label, waiting } as recorded, and as predicted.
local function add(both, view, label, from, ticks, wait, seconds)
  table.insert(both[1], { from, ticks, label, wait })
  table.insert(both[2], { from + wait, math.floor(seconds * view.trace.ticks_per_second + 0.5), label, 0 })
end

local function add_lane(t, name, list, origin)
  table.sort(list, function(a, b) return a[1] < b[1] end)
  local start, duration, label, wait = {}, {}, {}, {}
  for i, each in ipairs(list) do
    start[i], duration[i], label[i], wait[i] = each[1] - origin, each[2], each[3], each[4]
  end
  t:lane { name = name, start = start, duration = duration, label = label, wait = wait,
    overview = lanes.too_large(t, #list) }
end

local function id_of(row)
  return ("%s %s %s %s"):format(row.name, tostring(row.bytes), tostring(row.group_size), tostring(row.group))
end

local function add_collectives(both, t, view, lane, rows, waits)
  local found = lane:dimensions()
  local sorts = {}
  for c, case in ipairs(found.cases) do
    local each = case.each
    local row = rows[id_of { name = each.kind, bytes = each.bytes, group_size = each.group_size,
      group = case.dimension }]
    sorts[c] = row and row.ratio and { row.predicted_seconds, label_of(t, each.kind, communication, row) }
  end
  for _, c, from, to in found.sequence:iter() do
    if sorts[c] then
      add(both, view, sorts[c][2], from, to - from, math.min(waits and waits[from] or 0, to - from), sorts[c][1])
    end
  end
end

--- The page of per-micro-batch timings.
local function timings(view, result)
  local predicted = {}
  for _, row in ipairs(result.stages) do
    local mine = predicted[row.stage - 1] or {}
    predicted[row.stage - 1], mine[row.unit] = mine, row.predicted_seconds
  end
  return html.page(view, nil, predicted)
end

--- The page (ett.report.page) of a comparison.
---@param result table of ett.loop.against
---@param lines table[]? its second result
function page.new(view, result, lines)
  if not lines then return timings(view, result) end
  local devices, collectives = operators.of_view(view), {}
  for _, row in ipairs(result.collectives) do collectives[id_of(row)] = row end
  return html.page(view, function(t, origin, waits)
    local lists = {}
    for i = 1, #devices do lists[i] = { {}, {} } end
    for i, line in ipairs(lines) do
      local row = result.operators[i]
      local label = row.ratio and label_of(t, line.name .. ", " .. line.pass, compute, row)
      for k, place in ipairs(label and line.places or {}) do
        add(lists[place.device], view, label, place.from, line.list[k], 0, row.predicted_seconds)
      end
    end
    for i, device in ipairs(devices) do
      if device.lane then add_collectives(lists[i], t, view, device.lane, collectives, waits[device.lane]) end
      t:group { name = ("measured and predicted, rank %s"):format(device.key), open = i <= 4 }
      add_lane(t, "measured", lists[i][1], origin)
      add_lane(t, "predicted", lists[i][2], origin)
    end
  end)
end

return page

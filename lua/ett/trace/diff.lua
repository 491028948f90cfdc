--- Differences between two traces: time by part, and kernels and collectives by name.
local comm = require "ett.trace.comm"
local operators = require "ett.trace.operators"
local stats = require "ett.trace.stats"

local diff = {}

local function kernels(view)
  local out, lanes = {}, #view:lanes()
  for _, lane in ipairs(view:lanes()) do
    for _, row in ipairs((lane:rows("compute") + lane:rows("comm") + lane:rows("memory")):stats{ by = { "name" } }) do
      local each = out[row.name] or { count = 0, ticks = 0 }
      out[row.name] = each
      each.count, each.ticks = each.count + row.count, each.ticks + row.total
    end
  end
  for _, each in pairs(out) do
    each.count, each.ms = each.count / lanes, view:ms(each.ticks) / lanes
  end
  return out
end

local function parts(view)
  local sums, lanes = {}, view:lanes()
  for _, lane in ipairs(lanes) do
    local C, K, M, B = lane:comm(), lane:compute(), lane:memory(), lane:busy()
    local each = { span = lane:span_ticks(), compute = K:measure(), communication = C:measure(),
      exposed_communication = (C - K):measure(), memory = M:measure(), busy = B:measure() }
    each.idle = each.span - each.busy
    for name, ticks in pairs(each) do sums[name] = (sums[name] or 0) + ticks end
  end
  for name, ticks in pairs(sums) do sums[name] = view:ms(ticks) / #lanes end
  return sums
end

--- Compares two views; all figures are means over the devices of each trace.
---@return table { parts = {…}, kernels = {…}, only_first, only_second }
function diff.compare(first, second, options)
  local out = { parts = {}, kernels = {}, first = first.path, second = second.path,
    devices = { #first:lanes(), #second:lanes() } }
  local a, b = parts(first), parts(second)
  for _, name in ipairs{ "span", "busy", "compute", "communication", "exposed_communication", "memory", "idle" } do
    out.parts[#out.parts + 1] = { name = name, first_ms = a[name], second_ms = b[name],
      difference_ms = b[name] - a[name], ratio = stats.ratio(b[name], a[name]) }
  end
  local k, l, names = kernels(first), kernels(second), {}
  for name in pairs(k) do names[name] = true end
  for name in pairs(l) do names[name] = true end
  local rows, only_first, only_second = {}, 0, 0
  for _, name in ipairs(stats.keys(names)) do
    local x, y = k[name], l[name]
    if not y then only_first = only_first + 1 end
    if not x then only_second = only_second + 1 end
    x, y = x or { count = 0, ms = 0.0 }, y or { count = 0, ms = 0.0 }
    rows[#rows + 1] = { name = name, first_count = x.count, second_count = y.count, first_ms = x.ms, second_ms = y.ms,
      difference_ms = y.ms - x.ms, kind = comm.library_of(name) and "communication" or "other" }
  end
  table.sort(rows, function(p, q)
    local x, y = math.abs(p.difference_ms), math.abs(q.difference_ms)
    if x ~= y then return x > y end
    return p.name < q.name
  end)
  out.kernel_names = #rows
  for i = 1, math.min(#rows, options and options.top or 20) do out.kernels[i] = rows[i] end
  out.only_first, out.only_second = only_first, only_second
  return out
end

local function shapes(view)
  local out, devices = {}, operators.of_view(view)
  for _, device in ipairs(devices) do
    for _, row in ipairs(operators.by_shape(device.runs)) do
      local key = ("%s %s %s %s"):format(row.name, row.shape, row.pass, row.dtype or "")
      local each = out[key] or { name = row.name, shape = row.shape, pass = row.pass, count = 0, ms = 0.0 }
      out[key] = each
      each.count, each.ms = each.count + row.count / #devices, each.ms + view:ms(row.ticks) / #devices
    end
  end
  return out
end

--- Operators by shape and pass in two views, by difference: { name, shape, pass, first_count, second_count, first_ms,
--- second_ms, difference_ms }, means over devices. Raises "missing" where a trace has no shapes.
function diff.operators(first, second, options)
  local a, b, keys, rows = shapes(first), shapes(second), {}, {}
  for key in pairs(a) do keys[key] = true end
  for key in pairs(b) do keys[key] = true end
  for _, key in ipairs(stats.keys(keys)) do
    local x, y = a[key], b[key]
    local one = x or y
    rows[#rows + 1] = { name = one.name, shape = one.shape, pass = one.pass, first_count = x and x.count or 0,
      second_count = y and y.count or 0, first_ms = x and x.ms or 0.0, second_ms = y and y.ms or 0.0,
      difference_ms = (y and y.ms or 0.0) - (x and x.ms or 0.0), key = key }
  end
  table.sort(rows, function(p, q)
    local x, y = math.abs(p.difference_ms), math.abs(q.difference_ms)
    if x ~= y then return x > y end
    return p.key < q.key
  end)
  for i = (options and options.top or 20) + 1, #rows do rows[i] = nil end
  for _, row in ipairs(rows) do row.key = nil end
  return rows
end

return diff

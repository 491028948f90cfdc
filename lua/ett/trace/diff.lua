--- Differences between two traces: time by part, and kernels and collectives by name.
local by = require "ett.base.by"
local comm = require "ett.trace.comm"
local operators = require "ett.trace.operators"
local stats = require "ett.trace.stats"

local diff = {}

--- Adds counts and ticks to the entry of a key, which begins as `new`.
local function add(out, key, new, count, ticks)
  local each = out[key] or new
  out[key] = each
  each.count, each.ticks = (each.count or 0) + count, (each.ticks or 0) + ticks
end

--- Entries by key as means over some devices.
local function means(view, out, devices)
  for _, each in pairs(out) do each.count, each.ms = each.count / devices, view:ms(each.ticks) / devices end
  return out
end

--- A row for each key of two maps of entries, the largest difference first: first_count, second_count, first_ms,
--- second_ms, difference_ms and what keep(row, entry) sets. Also the numbers of keys, and of those of one map alone.
local function joined(a, b, top, keep)
  local keys, rows, only_first, only_second, none = {}, {}, 0, 0, { count = 0, ms = 0.0 }
  for key in pairs(a) do keys[key] = true end
  for key in pairs(b) do keys[key] = true end
  for _, key in ipairs(stats.keys(keys)) do
    if not b[key] then only_first = only_first + 1 end
    if not a[key] then only_second = only_second + 1 end
    local x, y = a[key] or none, b[key] or none
    rows[#rows + 1] = { key = key, first_count = x.count, second_count = y.count, first_ms = x.ms, second_ms = y.ms,
      difference_ms = y.ms - x.ms }
    keep(rows[#rows], a[key] or b[key])
  end
  table.sort(rows, by(function(row) return -math.abs(row.difference_ms) end, "key"))
  local count = #rows
  for i = (top or stats.default_top) + 1, count do rows[i] = nil end
  for _, row in ipairs(rows) do row.key = nil end
  return rows, count, only_first, only_second
end

local function kernels(view)
  local out, lanes = {}, view:lanes()
  for _, lane in ipairs(lanes) do
    for _, row in ipairs((lane:rows("compute") + lane:rows("comm") + lane:rows("memory")):stats{ by = { "name" } }) do
      add(out, row.name, { name = row.name }, row.count, row.total)
    end
  end
  return means(view, out, #lanes)
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

--- A note if the traces have unlike numbers of steps: the figures are totals. No note if a trace states no steps.
local function unlike_steps(one, other)
  if #one == #other or #one == 0 or #other == 0 then return nil end
  local seen, common = {}, nil
  for _, step in ipairs(one) do seen[step.number] = true end
  for _, step in ipairs(other) do common = common or seen[step.number] and step.number end
  return ("%d and %d steps: times and numbers are totals%s"):format(#one, #other, common
    and ("; --step %d compares one step"):format(common) or "")
end

--- Compares two views; all figures are totals, as means over the devices of each trace.
---@return table { parts = {…}, kernels = {…}, only_first, only_second, steps = numbers of steps, note? }
function diff.compare(first, second, options)
  local out = { parts = {}, first = first.path, second = second.path,
    devices = { #first:lanes(), #second:lanes() }, steps = { #first:iterations(), #second:iterations() } }
  out.note = unlike_steps(first:iterations(), second:iterations())
  local a, b = parts(first), parts(second)
  for _, name in ipairs{ "span", "busy", "compute", "communication", "exposed_communication", "memory", "idle" } do
    out.parts[#out.parts + 1] = { name = name, first_ms = a[name], second_ms = b[name],
      difference_ms = b[name] - a[name], ratio = stats.ratio(b[name], a[name]) }
  end
  out.kernels, out.kernel_names, out.only_first, out.only_second = joined(kernels(first), kernels(second),
    options and options.top, function(row, each)
      row.name, row.kind = each.name, comm.library_of(each.name) and "communication" or "other"
    end)
  return out
end

local function shapes(view)
  local out, devices = {}, operators.of_view(view)
  for _, device in ipairs(devices) do
    for _, row in ipairs(operators.by_shape(device.runs)) do
      add(out, ("%s %s %s %s"):format(row.name, row.shape, row.pass, row.dtype or ""),
        { name = row.name, shape = row.shape, pass = row.pass }, row.count, row.ticks)
    end
  end
  return means(view, out, #devices)
end

--- Operators by shape and pass in two views, by difference: { name, shape, pass, first_count, second_count, first_ms,
--- second_ms, difference_ms }, means over devices. Raises "missing" where a trace has no shapes.
function diff.operators(first, second, options)
  return (joined(shapes(first), shapes(second), options and options.top, function(row, each)
    row.name, row.shape, row.pass = each.name, each.shape, each.pass
  end))
end

return diff

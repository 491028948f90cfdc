--- Device time inside the program's own ranges.
local by = require "ett.base.by"
local stats = require "ett.trace.stats"

--- Ranges recorded on the device (gpu_user_annotation).
local function recorded(view, lane, add)
  local rows = view:class_rows("device_annotation"):where{ file = lane.process.files, device = lane.device }
  if lane.from then rows = rows:where{ starts_in = { lane.from, lane.to } } end
  for _, group in ipairs(rows:group{ "name" }) do
    local from_to = group.events:intervals()
    add(group.name, "device", group.events, from_to:measure(lane:busy()))
  end
end

--- Ranges on the host: from the start of the first kernel launched inside to the end of the last.
local function launched(view, lane, add)
  local rows = view:class_rows("annotation"):where{ file = lane.process.files }
  if lane.from then rows = rows:where{ starts_in = { lane.from, lane.to } } end
  local found = lane:launched_by_name(rows)
  for i, group in ipairs(rows:stats{ by = { "name" }, order = "total" }) do
    if i > 200 then break end
    local set, count = table.unpack(found[group.name] or {})
    if set then add(group.name, "host", nil, set:measure(lane:busy()), set:measure(), count) end
  end
end

return {
  name = "annotation_table",
  summary = "device time inside the program's own ranges (record_function, NVTX)",
  definition = [[Ranges by name over all devices. With source "device" they are rows that the profiler put on the
device (gpu_user_annotation), with their count and durations. A trace without such rows has source "host": a range on
the host that launched kernels lasts from the start of its first kernel to the end of its last one. Intervals of one
name are united; at most 200 names per device are read. busy_ms is the time in a range in which the device ran
something. The table has the first --top names (20) by busy_ms.]],
  needs = "user annotations, and device rows",
  units = { total_ms = "ms", busy_ms = "ms", mean_us = "us" },
  options = { "top" },
  compute = function(view, options)
    local found = {}
    local function add(name, source, rows, busy, total, count)
      local row = found[name] or { name = name, source = source, count = 0, total = 0, busy = 0 }
      found[name] = row
      row.count, row.busy = row.count + (count or #rows), row.busy + busy
      row.total = row.total + (total or rows:total())
    end
    local lanes = view:lanes()
    for _, ranges in ipairs{ recorded, launched } do
      for _, lane in ipairs(next(found) == nil and lanes or {}) do
        if not lane.tpu then ranges(view, lane, add) end
      end
    end
    local list = {}
    for _, name in ipairs(stats.keys(found)) do list[#list + 1] = found[name] end
    if #list == 0 then view:missing("needs user annotations whose kernels ran on a device; the trace has none") end
    table.sort(list, by("-busy", "name"))
    local rows = {}
    for i = 1, math.min(#list, options.top or stats.default_top) do
      local each = list[i]
      rows[i] = { name = each.name, source = each.source, count = each.count, total_ms = view:ms(each.total),
        busy_ms = view:ms(each.busy), mean_us = view:us(each.total / each.count) }
    end
    return { annotations = rows, names = #list }
  end,
}

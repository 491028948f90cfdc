--- Memory copies and sets by kind: bytes, time, bandwidth, and bandwidth over time.
local by = require "ett.base.by"
local stats = require "ett.trace.stats"

--- Distributes a copy's bytes over the intervals of the span that it covers. A copy without duration is in the interval
--- that begins with it, at the end of the span in the last one.
local function spread(points, width, from, ts, dur, bytes)
  local first = math.max(1, math.min(#points, math.floor((ts - from) / width) + 1))
  for i = first, math.min(#points, math.max(first, math.ceil((ts + dur - from) / width))) do
    local inside = math.min(ts + dur - from, i * width) - math.max(ts - from, (i - 1) * width)
    points[i].bytes = points[i].bytes + (dur > 0 and bytes * inside / dur or bytes)
  end
end

--- A row's bytes, or nil if it states none.
local function bytes_of(value)
  local bytes = tonumber(value or nil)
  return bytes and bytes >= 0 and bytes or nil
end

--- The bandwidth of a device in equal parts of its span: that of all rows that touch the part.
local function series_of(view, lane, count)
  local columns = stats.columns(lane:touching_rows("memory"), { "ts", "dur", "bytes" })
  local from, to = lane:span()
  local width, points = (to - from) / count, {}
  if #columns.ts == 0 or to <= from then return points end
  for i = 1, count do points[i] = { from_ms = view:ms((i - 1) * width), device = lane.key, bytes = 0.0 } end
  for i, ts in ipairs(columns.ts) do
    local bytes = bytes_of(columns.bytes[i])
    if bytes then spread(points, width, from, ts, columns.dur[i], bytes) end
  end
  for _, point in ipairs(points) do point.GBps, point.bytes = point.bytes / view:s(width) / 1e9, nil end
  return points
end

local function add(kinds, name, ticks, bytes, rate)
  local kind = kinds[name] or { name = name, count = 0, bytes = 0.0, ticks = 0, sized = 0, sized_ticks = 0, rates = {} }
  kinds[name] = kind
  kind.count, kind.ticks = kind.count + 1, kind.ticks + ticks
  if bytes then
    kind.sized, kind.bytes, kind.sized_ticks = kind.sized + 1, kind.bytes + bytes, kind.sized_ticks + ticks
    kind.rates[#kind.rates + 1] = rate
  end
end

return {
  name = "memory_bandwidth",
  summary = "memory copies and memsets by kind: bytes and bandwidth, in total and over time",
  definition = [[Device rows that copy or set memory, by name. GBps is the bytes of the rows that state bytes over the
sum of their durations. Least, median and greatest GBps are those of single rows that took time. series divides each
device's span into --top equal parts (20). A row's bytes are spread evenly over its duration, also if it began before
the window. GBps of a part counts all kinds together.]],
  needs = "copies or sets of memory on a device",
  units = { bytes = "B", total_ms = "ms", GBps = "GB/s", from_ms = "ms" },
  args = { "bytes" },
  options = { "top" },
  compute = function(view, options)
    local kinds, series, count = {}, {}, options.top or stats.default_top
    for _, lane in ipairs(view:lanes()) do
      local columns = stats.columns(lane:rows("memory"), { "name", "dur", "bytes" })
      for i, name in ipairs(columns.name) do
        local dur, bytes = columns.dur[i], bytes_of(columns.bytes[i])
        add(kinds, name, dur, bytes, bytes and dur > 0 and bytes / view:s(dur) / 1e9 or nil)
      end
      for _, point in ipairs(series_of(view, lane, count)) do series[#series + 1] = point end
    end
    local list = {}
    for _, name in ipairs(stats.keys(kinds)) do
      local kind = kinds[name]
      local rates = stats.sorted(kind.rates)
      list[#list + 1] = { name = name, count = kind.count, total_ms = view:ms(kind.ticks),
        bytes = kind.sized > 0 and kind.bytes or stats.null,
        GBps = kind.sized_ticks > 0 and kind.bytes / view:s(kind.sized_ticks) / 1e9 or stats.null,
        least_GBps = rates[1] or stats.null, median_GBps = stats.median(rates), greatest_GBps = rates[#rates]
          or stats.null }
    end
    if #list == 0 then
      view:missing("needs copies or sets of memory on a device (gpu_memcpy, gpu_memset); the trace has none")
    end
    table.sort(list, by("-total_ms", "name"))
    return { kinds = list, series = series }
  end,
}

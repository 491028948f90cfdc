--- Queue length of each stream as a series: number of rows launched but not started.
local stats = require "ett.trace.stats"

local min, tointeger = math.min, math.tointeger

--- Sorted launch times and start times of the launched rows; a start is moved to at least its launch.
local function times_of(rows, calls)
  local launches, starts = {}, {}
  local at, begun = (calls:columns { "ts" }), (rows:columns { "ts" })
  for i = 1, #rows do
    local launch, start = at[i], begun[i]
    if launch then
      launches[#launches + 1] = launch
      starts[#starts + 1] = start > launch and start or launch
    end
  end
  return stats.sorted(launches), stats.sorted(starts)
end

--- Calls each(from, to, length) for every interval of constant length, in order.
local function walk(launches, starts, from, to, each)
  local i, k, now = 1, 1, from
  while now < to do
    while launches[i] and launches[i] <= now do i = i + 1 end
    while starts[k] and starts[k] <= now do k = k + 1 end
    local next_at, launch, start = to, launches[i], starts[k]
    if launch and launch < next_at then next_at = launch end
    if start and start < next_at then next_at = start end
    each(now, next_at, i - k)
    now = next_at
  end
end

--- One stream: { mean, most, empty_share }, and its points { from_ms, mean, most }.
local function series(view, lane, rows, count)
  local from, to = lane:span()
  local launches, starts = times_of(rows, rows:match(view:launch_calls(), "correlation"))
  if #launches == 0 or to <= from then return nil end
  local width, area, empty, most, points = (to - from) / count, 0.0, 0, 0, {}
  for i = 1, count do points[i] = { from_ms = view:ms((i - 1) * width), area = 0.0, most = 0 } end
  walk(launches, starts, from, to, function(a, b, length)
    area, empty = area + (b - a) * (length + 0.0), empty + (length == 0 and b - a or 0)
    if length > most then most = length end
    local first, last = a - from, b - from -- most intervals are in one part
    for i = tointeger(first // width) + 1, min(count, tointeger(-(-last // width))) do
      local point, begin, stop = points[i], (i - 1) * width, i * width
      local inside = (last < stop and last or stop) - (first > begin and first or begin)
      point.area = point.area + inside * length
      if inside > 0 and length > point.most then point.most = length end
    end
  end)
  for _, point in ipairs(points) do point.mean, point.area = point.area / width, nil end
  local recorded = lane:span_ticks()
  return { mean = area / recorded, most = most, empty_share = (empty - (to - from - recorded)) / recorded }, points
end

return {
  name = "queue_length",
  summary = "number of launched rows that have not started, per stream, over time",
  definition = [[Per stream, rows joined to their launch call by correlation. The queue's length at a time is the number
of rows whose call had started and that had not started themselves; a row that starts before its call is not counted.
empty_share: share of the device's span in which the queue was empty: the next row then waits for the host. series: the
span in --top equal parts (20), mean and greatest length of each; from_ms counts from the span's start.]],
  needs = "device rows and launch calls (cuda_runtime, hip_runtime …) with correlation ids",
  units = { mean = "rows", most = "rows", empty_share = "share", from_ms = "ms" },
  options = { "top" },
  compute = function(view, options)
    local streams, list, any = {}, {}, false
    for _, lane in ipairs(view:lanes()) do
      for _, group in ipairs(lane.all:group { "stream" }) do
        local found, points = series(view, lane, group.events, options.top or stats.default_top)
        if found then
          local key = ("%s stream %s"):format(lane.key, group.stream or "?")
          streams[key], any = found, true
          for _, point in ipairs(points) do point.stream, list[#list + 1] = key, point end
        end
      end
    end
    if not any then view:missing("needs launch calls with the correlation ids of device rows; no row has a launch") end
    return { streams = streams, series = list }
  end,
}

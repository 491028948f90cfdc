--- The timeline of a trace's page: lanes by rank, stream, host thread and process group.
--
-- The details of a kernel are those of its collective, or of the operator that launched it. The part of a collective
-- before the last rank of its group starts is drawn as waiting.
local error_module = require "ett.base.error"
local page_lanes = require "ett.report.page.lanes"

local lanes = {}

local kinds = { { "compute", "compute" }, { "communication", "comm" }, { "waiting for the last rank", "wait" },
  { "copies", "memory" }, { "operators on the host", "host" }, { "launches and other calls", "note" },
  { "marked ranges", "weight" } }
local compute, communication, copies, host, call, range = 1, 2, 4, 5, 6, 7

local kind_of_class = { cpu_op = host, python = host, host = host, communication = communication, runtime = call,
  overhead = call, annotation = range, device_annotation = range, device_step = range, device_module = range,
  device_async = compute, memcpy = copies, memset = copies }

--- Maximum bytes of a page's lanes; further lanes have only overviews. Device rows come first.
lanes.most_bytes = 11000000
local bytes_of_event = 7.5 -- deflated, in base64: random times
local most_names = 400 -- characters of a name or detail

local function cut(text) return #text > most_names and text:sub(1, most_names) .. "…" or text end

--- Waiting time of each collective for the last rank of its group, by lane and start: waits[lane][ts].
local function waits_of(view)
  local waits, groups = {}, {}
  for _, each in ipairs(error_module.unless_missing(view.matched_groups, view) or {}) do
    if each.result then
      groups[#groups + 1] = each.group
      for r, member in ipairs(each.group.members) do
        local mine = waits[member.lane] or {}
        waits[member.lane] = mine
        local starts, ticks = each.result.matches:waits(r)
        for i, wait in ipairs(ticks) do if wait > 0 then mine[starts[i]] = wait end end
      end
    end
  end
  return waits, groups
end

local function collective_label(t, cache, each)
  local label = cache[each]
  if not label then
    label = t:label(cut(each.name or each.kind), communication, page_lanes.details("collective", each.kind,
      "process group", each.group_description or each.group, "ranks", each.group_size, "source and destination",
      each.pair), each.bytes)
    cache[each] = label
  end
  return label
end

--- Labels of device rows: name, and the operator that launched them with its shapes.
local function device_labels(t, view, lane, rows)
  local by_name, first = rows:numbered { "name", "class" }
  local operators = rows:match(view:launch_calls(), "correlation"):enclosing(view:class_rows("cpu_op"))
  local has_dims = view.has_dims
  local by_operator, first_operator = operators:numbered(has_dims and { "name", "arg:Input Dims", "arg:Input type" }
    or { "name" })
  local comm, cache, labels = {}, {}, {}
  local all = lane:collectives()
  for _, n, start in all.sequence:iter() do comm[start] = all.sorts[n] end
  local copied, width = view:copy_names(), #first_operator
  local is_copy = {}
  for i = 1, #first do is_copy[i] = #rows:slice(first[i]):where { names = copied } > 0 end
  local ts = rows:columns { "ts" }
  for i, n in ipairs(by_name) do
    local each = comm[ts[i]]
    if each and each.name == rows:get(first[n], "name") then
      labels[i] = collective_label(t, cache, each)
    else
      local key = n * (width + 1) + by_operator[i]
      if not cache[key] then
        local at, class = first_operator[by_operator[i]], rows:get(first[n], "class")
        cache[key] = t:label(cut(rows:get(first[n], "name") or ""), is_copy[n] and copies or kind_of_class[class]
          or compute, page_lanes.details("operator", operators:get(at, "name"),
          "shapes", has_dims and operators:get(at, "Input Dims"),
          "types", has_dims and operators:get(at, "Input type")))
      end
      labels[i] = cache[key]
    end
  end
  return labels
end

local function plain_labels(t, view, rows)
  local keys = view.has_dims and { "name", "class", "arg:Input Dims", "arg:Input type" } or { "name", "class" }
  local numbers, first = rows:numbered(keys)
  local labels = {}
  for n, at in ipairs(first) do
    labels[n] = t:label(cut(rows:get(at, "name") or ""), kind_of_class[rows:get(at, "class")] or host,
      view.has_dims and page_lanes.details("shapes", rows:get(at, "Input Dims"), "types", rows:get(at, "Input type")))
  end
  for i, n in ipairs(numbers) do numbers[i] = labels[n] end
  return numbers
end

local function shifted(values, origin)
  for i, value in ipairs(values) do values[i] = value - origin end
  return values
end

--- Whether the page would become too large with this many more events.
function lanes.too_large(t, count) return t.page.size + count * bytes_of_event > lanes.most_bytes end

--- Adds a lane of rows; without its events if the page would become too large.
local function add(t, name, rows, labels, origin, more)
  local start, duration = rows:columns { "ts", "dur" }
  local wait
  if more.waits then
    wait = {}
    for i, ts in ipairs(start) do wait[i] = math.min(more.waits[ts] or 0, duration[i]) end
  end
  t:lane { name = name, start = shifted(start, origin), duration = duration, label = labels, wait = wait,
    open = more.open, overview = lanes.too_large(t, #rows) }
end

local function stream_name(group)
  return group.stream and group.stream >= 0 and ("stream %d"):format(group.stream) or group.thread or "device"
end

--- The lanes of a device: one per stream, with the ranges marked on it.
local function add_device(t, view, lane, origin, waits)
  for _, group in ipairs(lane:touching():group { "stream", "thread" }) do
    local rows = group.events:sort "ts"
    local communicates = #(rows & lane:touching_rows "comm") > 0
    add(t, stream_name(group), rows, device_labels(t, view, lane, rows), origin,
      { waits = communicates and waits[lane] or nil })
  end
  local marks = view:class_rows("device_annotation"):where { file = lane.process.files, device = lane.device }
  if lane.from then marks = marks:where { window = { lane.from, lane.to } } end
  if #marks > 0 then add(t, "marked ranges", marks, plain_labels(t, view, marks), origin, {}) end
end

local function add_threads(t, view, process, origin)
  local rows = view:events_needed():events { file = process.files,
    class = { "cpu_op", "annotation", "runtime", "python", "overhead", "host", "communication" } }
  local from, to = view:window(process)
  if from then rows = rows:where { window = { from, to } } end
  local groups = rows:group { "tid", "thread" }
  table.sort(groups, function(a, b) return #a.events > #b.events end)
  for _, group in ipairs(groups) do
    local name = group.thread or ("thread %s"):format(group.tid or "?")
    add(t, name, group.events, plain_labels(t, view, group.events), origin, { open = false })
  end
end

--- One lane per rank for every process group of several ranks.
local function add_groups(t, groups, origin, waits)
  for i, group in ipairs(groups) do
    local label = group.description ~= "" and group.description or group.group
    t:group { name = ("collectives of process group %s"):format(cut(label or "?")), open = i <= 4 }
    for _, member in ipairs(group.members) do
      local cache, start, duration, labels, wait = {}, {}, {}, {}, {}
      local sorts = member.lane:collectives().sorts
      for k, n, from, to in member.list:iter() do
        start[k], duration[k], labels[k] = from - origin, to - from, collective_label(t, cache, sorts[n])
        wait[k] = math.min(to - from, (waits[member.lane] or {})[from] or 0)
      end
      t:lane { name = "rank " .. member.lane.key, start = start, duration = duration, label = labels, wait = wait,
        overview = lanes.too_large(t, #start) }
    end
  end
end

--- The critical path is drawn only for traces with at most this many device rows, because its graph is built in Lua.
lanes.most_path_rows = 100000

local kind_of_wait = { transfer = communication, row = compute, host = host, call = host }

--- A lane with the critical path (ett.trace.replay). Neighbours with equal name and rank are merged.
local function add_critical_path(t, view, origin, list)
  local rows = 0
  for _, lane in ipairs(list) do rows = rows + #lane:rows "all" end
  if rows == 0 or rows > lanes.most_path_rows then return end
  local replay = require "ett.trace.replay"
  local g = error_module.unless_missing(replay.graph, view)
  if not g then return end
  local steps, start, duration, labels, before = replay.steps(g, replay.critical_path(g)), {}, {}, {}, nil
  for i = #steps, 1, -1 do
    local step = steps[i]
    local at, stop = math.floor(step.from) - origin, math.floor(step.to) - origin
    local last = #start
    if before and before.name == step.name and before.rank == step.rank and start[last] + duration[last] == at then
      duration[last] = stop - start[last]
    elseif last == 0 or at >= start[last] then
      start[last + 1], duration[last + 1] = at, stop - at
      labels[last + 1] = t:label(cut(step.name), kind_of_wait[step.kind] or call, page_lanes.details("rank", step.rank))
    end
    before = step
  end
  if #start == 0 then return end
  t:group { name = "critical path" }
  t:lane { name = "waited for last", start = start, duration = duration, label = labels,
    overview = lanes.too_large(t, #start) }
end

local function span_of(view)
  if view.options.step or view.options.window then
    local from, to = math.huge, -math.huge
    for _, process in ipairs(view:processes()) do
      local a, b = view:window(process)
      if a then from, to = math.min(from, a), math.max(to, b) end
    end
    if from < to then return from, to end
  end
  return view.trace.start, view.trace.stop
end

--- Adds the lanes of a view to a page; returns the timeline, or nil if no event has a duration. `more`, if given, adds
--- groups below the critical path: more(timeline, origin, waits), with waits[lane][ts] of collectives.
function lanes.timeline(page, view, more)
  local from, to = span_of(view)
  if to <= from then return nil end
  view.has_dims = pcall(function() return view.trace:events { has_arg = "Input Dims" } end)
  local t = page_lanes.new(page, { from = 0, to = to - from, tick = 1 / view.trace.ticks_per_second, kinds = kinds })
  local list, processes = view:lane_list(), view:processes()
  local waits, groups = waits_of(view)
  local threads = {}
  add_critical_path(t, view, from, list)
  if more then more(t, from, waits) end
  for _, process in ipairs(processes) do
    local name = process.rank and "rank " .. process.key or process.key
    t:group { name = name, open = #processes <= 16 }
    for _, lane in ipairs(list) do
      if lane.process == process then
        local first = #t.groups[#t.groups].lanes + 1
        add_device(t, view, lane, from, waits)
        for k = first, #t.groups[#t.groups].lanes do
          local each = t.groups[#t.groups].lanes[k]
          if #list > #processes then each.name = lane.key .. ", " .. each.name end
        end
      end
    end
    threads[process] = t.groups[#t.groups]
  end
  add_groups(t, groups, from, waits)
  local last = #t.groups
  for _, process in ipairs(processes) do -- host rows after all device rows, so that host rows are omitted first
    t:group { name = "host" }
    add_threads(t, view, process, from)
    local host_group = table.remove(t.groups)
    table.move(host_group.lanes, 1, #host_group.lanes, #threads[process].lanes + 1, threads[process].lanes)
  end
  assert(#t.groups == last)
  local seen = {}
  for _, step in ipairs(view:steps()) do
    for _, span in pairs(step.spans) do
      if not seen[step.name] and span[2] > from and span[1] < to then
        seen[step.name] = true
        t:mark(step.name:gsub("ProfilerStep", "step "), math.max(0, span[1] - from), span[2] - from)
      end
    end
  end
  return t:finish()
end

local tick = 1e-6 -- seconds: times per micro-batch are milliseconds with a few decimals
local ticks_per_ms = 1e-3 / tick

-- The units of a micro-batch: field of a record, and name.
local units = { { "fwd", "forward" }, { "bwd", "backward" }, { "wgrad", "weight gradient" } }

--- Iterations one after the other, each as long as on its slowest rank: { number, from, to } in milliseconds.
local function iteration_spans(ranks)
  local spans, at = {}, 0.0
  for i, number in ipairs(ranks[1].iterations) do
    local longest = 0.0
    for _, rank in ipairs(ranks) do
      longest = math.max(longest, rank.timings[number] and rank.timings[number].total_ms or 0.0)
    end
    spans[i] = { number = number, from = at, to = at + longest }
    at = at + longest
  end
  return spans
end

--- Adds the units of one iteration of a rank to a lane: { start, duration, label, predicted }.
---@param seconds table<string, number> predicted seconds by unit
local function add_units(lane, record, t, from_ms, seconds)
  for kind, unit in ipairs(units) do
    local field, name = unit[1], unit[2]
    local starts, ends = record[field .. "_start"] or {}, record[field .. "_end"] or {}
    for m = 1, math.min(#starts, #ends) do
      local from = math.floor((from_ms + starts[m]) * ticks_per_ms)
      local k = #lane.start + 1
      lane.start[k] = from
      lane.duration[k] = math.max(0, math.floor((from_ms + ends[m]) * ticks_per_ms) - from)
      lane.predicted[k] = seconds[name] and math.floor(seconds[name] * 1e3 * ticks_per_ms)
      lane.label[k] = t:label(("%s %d"):format(name:sub(1, 1):upper(), m), kind,
        ("unit: %s\nmicro-batch: %d"):format(name, m))
    end
  end
end

--- The pipeline of per-micro-batch timings: one lane per stage, one iteration after the other.
---@param predicted table<integer, table<string, number>>? seconds by rank and unit ("forward"): a second lane per
---  stage, of the same units from the same starts
function lanes.pipeline(page, timings, predicted)
  local spans = iteration_spans(timings.ranks)
  local last = #spans > 0 and spans[#spans].to or 0.0
  local t = page_lanes.new(page, { from = 0, to = math.ceil(last * ticks_per_ms), tick = tick, kinds = {
    { "forward", "forward" }, { "backward", "backward" }, { "weight gradient", "weight" } } })
  t:group {}
  for _, rank in ipairs(timings.ranks) do
    local lane = { start = {}, duration = {}, label = {}, predicted = {} }
    for _, span in ipairs(spans) do
      add_units(lane, rank.records[span.number] or {}, t, span.from, predicted and predicted[rank.rank] or {})
    end
    t:lane { name = ("stage %d"):format(rank.rank), start = lane.start, duration = lane.duration, label = lane.label }
    if #lane.predicted == #lane.start then
      t:lane { name = ("stage %d, predicted"):format(rank.rank), start = lane.start, duration = lane.predicted,
        label = lane.label }
    end
  end
  for _, span in ipairs(spans) do
    t:mark(("iteration %s"):format(span.number), math.floor(span.from * ticks_per_ms),
      math.floor(span.to * ticks_per_ms))
  end
  return t:finish()
end

return lanes

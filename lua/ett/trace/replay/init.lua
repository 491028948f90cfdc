--- Replays a recorded run on its dependency graph, unchanged or with a change.
--
--   local g = replay.graph(view)
--   local run = replay.run(g)                       -- times of all events; the recorded ones without a change
--   replay.change(g, "attention*0.5", options); replay.run(g).span_ticks
--
-- A replay recomputes the effect of changed durations, transfers and host time. It does not model how concurrent
-- kernels slow each other down.
local by = require "ett.base.by"
local collective = require "ett.trace.collective"
local error_module = require "ett.base.error"
local graph = require "ett.trace.replay.graph"
local operators = require "ett.trace.operators"
local stats = require "ett.trace.stats"
local waits = require "ett.trace.replay.waits"

local replay = {}

--- Event arguments that a replay reads.
replay.args = { table.unpack(waits.args) }
table.move(operators.args, 1, #operators.args, #replay.args + 1, replay.args)
table.move(collective.args, 1, #collective.args, #replay.args + 1, replay.args)

--- The dependency graph of a view (ett.trace.replay.graph). Changes modify its delays, so each call builds a new one.
replay.graph = graph.build

--- The successors of event n are list[begin[n]] to list[begin[n + 1] - 1]. many[n]: its number of predecessors.
---@return integer[] begin, integer[] list, integer[] many
local function successors(g)
  local count, begin, list, many = #g.time, {}, {}, {}
  for n = 1, count + 1 do begin[n] = 0 end
  for n = 1, count do
    local link, links = g.last_link[n], 0
    while link > 0 do
      begin[g.of[link]] = begin[g.of[link]] + 1
      link, links = g.before_link[link], links + 1
    end
    many[n] = links
  end
  local place = 1
  for n = 1, count + 1 do
    place = place + begin[n]
    begin[n] = place -- moves down to the begin as the list is filled
  end
  for link = 1, place - 1 do list[link] = 0 end
  for n = count, 1, -1 do
    local link = g.last_link[n]
    while link > 0 do
      local of = g.of[link]
      begin[of] = begin[of] - 1
      list[begin[of]] = n
      link = g.before_link[link]
    end
  end
  return begin, list, many
end

--- Events in topological order. Events of a cycle, which invalid data can cause, keep their recorded times.
local function order_of(g)
  if g.order then return g.order end
  local begin, list, open = successors(g)
  local order = {}
  for n = 1, #g.time do if open[n] == 0 then order[#order + 1] = n end end
  local at = 1
  while at <= #order do
    local n = order[at]
    for k = begin[n], begin[n + 1] - 1 do
      local next_event = list[k]
      open[next_event] = open[next_event] - 1
      if open[next_event] == 0 then order[#order + 1] = next_event end
    end
    at = at + 1
  end
  g.order = order
  return order
end

--- Span of each lane, and their mean: the sum over its recordings of last end - first start.
local function spans(g, time)
  local list, sum = {}, 0
  for _, lane in ipairs(g.lanes) do
    local first, last, span = {}, {}, 0
    for _, row in ipairs(g.rows[lane.key]) do
      local r = row.recording
      first[r] = math.min(first[r] or math.huge, time[row.start])
      last[r] = math.max(last[r] or -math.huge, time[row.finish])
    end
    for r, stop in pairs(last) do span = span + stop - first[r] end
    list[lane.key], sum = span, sum + span
  end
  return list, sum / #g.lanes
end

--- Times of all events: { time, binding (the event that each waited for, or false), spans = { [lane] = ticks },
--- span_ticks (mean), left_out (events of a cycle) }.
function replay.run(g)
  local time, binding = {}, {}
  local order = order_of(g)
  for n = 1, #g.time do time[n], binding[n] = g.time[n], false end
  for _, n in ipairs(order) do
    local latest, of = g:ready(n, time)
    if latest then time[n], binding[n] = latest + g.delay[n], of end
  end
  local by_lane, mean = spans(g, time)
  return { time = time, binding = binding, spans = by_lane, span_ticks = mean, left_out = #g.time - #order }
end

-- The result of replay.run for an unchanged graph, whose times are those recorded, without its spans; nil if an event
-- may be in a cycle, or has another time than its predecessors give. Predecessors that have earlier times, or equal
-- times and lower numbers, form no cycle.
local function as_recorded(g)
  local time, delay, last_link = g.time, g.delay, g.last_link
  local of, lag, before_link, binding = g.of, g.lag, g.before_link, {}
  for n = 1, #time do
    local own, link = time[n], last_link[n]
    local latest, waited = nil, false
    while link > 0 do
      local p = of[link]
      local before = time[p]
      if before > own or before == own and p > n then return nil end
      if not latest or before + lag[link] >= latest then latest, waited = before + lag[link], p end -- as Graph:ready
      link = before_link[link]
    end
    if latest and latest + delay[n] ~= own then return nil end
    binding[n] = waited
  end
  return { time = time, binding = binding }
end

--- Spans as recorded: { [lane] = ticks }, and their mean.
function replay.recorded(g) return spans(g, g.time) end

-- Changes ------------------------------------------------------------------------------

--- Scales the durations of device rows for which factor(row, lane) returns a number.
local function scale_rows(g, factor)
  local changed = 0
  for _, lane in ipairs(g.lanes) do
    for _, row in ipairs(g.rows[lane.key]) do
      local scale = factor(row, lane)
      if scale then
        g.delay[row.finish] = g.delay[row.finish] * scale
        changed = changed + 1
      end
    end
  end
  return changed
end

--- Rows of communication by lane and row number.
local function communication(lane)
  return lane:cached("communication_rows", function()
    local set = {}
    for _, row in ipairs((lane:rows("comm"):columns { "row" })) do set[row] = true end
    return set
  end)
end

--- The entry of the collective at the times of a lane's row, or nil; cached under a name. Of an asynchronous
--- collective the last row is the one that waits.
---@param entries table by the sorts of the sequence
local function at_times(lane, name, row, sequence, entries)
  local halves = lane:asynchronous()
  local pair = halves and halves.of_last[halves.place[row.row] or 0]
  local found = lane:cached(name, function()
    local by_start = {}
    for _, n, start, stop in sequence:iter() do
      by_start[start] = by_start[start] or {}
      by_start[start][stop] = by_start[start][stop] or entries[n]
    end
    return by_start
  end)
  local by_stop = found[pair and pair.ts or row.ts]
  return by_stop and by_stop[pair and pair.stop or row.stop]
end

--- The collective (ett.trace.collective) of a lane's row, also without a match on other ranks; or nil.
local function collective_at(lane, row)
  local all = lane:collectives()
  return at_times(lane, "collectives_by_time", row, all.sequence, all.sorts)
end

--- The case (ett.trace.parallel) of a lane's row, or nil.
local function case_at(lane, row)
  local all = lane:dimensions()
  return at_times(lane, "cases_by_time", row, all.sequence, all.cases)
end

--- The operation family, kind or operator of a lane's row, as words that a change may name.
local function words_of(view, lane)
  return lane:cached("words_of_rows", function()
    local words = {}
    local rows = lane:rows("compute") + lane:rows("memory")
    local tree = operators.tree(view, lane.process)
    local host = rows:match(view:launch_calls(), "correlation"):enclosing(view:class_rows("cpu_op")
      :where { file = lane.process.files }):columns { "row" }
    for i, row in ipairs((rows:columns { "row" })) do
      local node = host[i] and tree.of_row[host[i]]
      local owner = node and tree.owner[node]
      local source = owner and tree.source[owner]
      local o = source and tree.operation[source]
      words[row] = { o and o.family, o and o.what, source and tree.name[source], owner and tree.pass[owner] }
    end
    return words
  end)
end

--- Attention by separate kernels: batched products and softmax.
local parts_of = { attention = { attention = true, bmm = true, softmax = true } }

local function scale_named(g, view, name, factor)
  local parts = parts_of[name] or { [name] = true }
  return scale_rows(g, function(row, lane)
    if communication(lane)[row.row] then
      local each = collective_at(lane, row)
      if each and each.kind == name then return factor end
    end
    for _, word in pairs(words_of(view, lane)[row.row] or {}) do
      if parts[word] then return factor end
    end
    return g.name[row.start]:find(name, 1, true) and factor or nil
  end)
end

--- Whether the ranks of a collective are all in one node of `per_node` ranks.
local function is_intra(each, per_node)
  local listed = each and type(each.group_ranks) == "string" and each.group_ranks
  if not listed then return (each and each.group_size or 1) <= per_node end
  local node
  for rank in listed:gmatch("%d+") do
    local mine = tonumber(rank) // per_node
    if node and node ~= mine then return false end
    node = mine
  end
  return true
end

--- More bandwidth: transfer times are divided by factor.
local function scale_link(g, which, factor, options)
  return scale_rows(g, function(row, lane)
    if not communication(lane)[row.row] then return nil end
    local intra = is_intra(collective_at(lane, row), options.gpus_per_node or 8)
    if which and (which == "intra") ~= intra then return nil end
    return 1 / factor
  end)
end

local function scale_host(g, rank, factor)
  local changed = 0
  for n, kind in ipairs(g.kind) do
    if kind == "host" and (not rank or g.rank[n] == rank) then
      g.delay[n] = g.delay[n] * factor
      changed = changed + 1
    end
  end
  return changed
end

--- The time of one rank on the path that leads to event n, back to `since`: { [event] = ticks }, and the sum. Transfers
--- are not the rank's own time, and the path ends where the rank waited for another.
local function own_time(g, run, n, since, lane)
  local ticks, sum = {}, 0
  while n and run.time[n] > since and (g.rank[n] == lane.key or g.rank[n] == lane.process.key) do
    local own = math.min(g.delay[n], run.time[n] - since)
    if own > 0 and g.kind[n] ~= "transfer" then ticks[n], sum = own, sum + own end
    n = run.binding[n]
  end
  return ticks, sum
end

--- How much longer a rank took before a matched collective, since the one before it, than the median of the others.
---@param time integer[] of all events
local function excess_of(row, each, last, time)
  local others, own = {}, nil
  for r, other in ipairs(each.rows) do
    local gap = time[other.start] - time[last.rows[r].finish]
    if other == row then own = gap else others[#others + 1] = gap end
  end
  return #others > 0 and own and own - stats.median(others) or 0
end

--- Cuts the rank's own time before each matched collective, on the host and in kernels, to the median of the other
--- ranks. Time before collectives of several groups is cut once.
local function not_late(g, key)
  local run, lane, before, cut, changed = replay.run(g), nil, {}, {}, 0
  for _, each in ipairs(g.lanes) do if each.key == key then lane = each end end
  for _, row in ipairs(lane and g.rows[key] or {}) do
    local each = row.collective
    local last = each and before[each.group]
    local excess = last and excess_of(row, each, last, run.time) or 0
    if excess > 0 then
      local ticks, sum = own_time(g, run, row.start, run.time[last.row.finish], lane)
      for n, own in pairs(ticks) do cut[n] = math.max(cut[n] or 0, own * math.min(1, excess / sum)) end
      changed = changed + (sum > 0 and 1 or 0)
    end
    if each then before[each.group] = { rows = each.rows, row = row } end
  end
  for n, ticks in pairs(cut) do g.delay[n] = g.delay[n] - ticks end
  return changed
end

local most_ranks = 1 << 24

--- Another degree of a dimension: scales the transfers of its collectives by options.ratio(each, from, to).
local function resize(g, dimension, from, to, options)
  from, to = math.tointeger(from), math.tointeger(to)
  if not (from and to and from > 0 and to > 0 and from <= most_ranks and to <= most_ranks) then
    error_module.raise("usage", "what-if: the ranks of '%s' must be 1 to %d", dimension, most_ranks)
  end
  if not options.ratio then
    error_module.raise("usage", "what-if: '%s=%d->%d' needs a cluster; give --cluster NAME", dimension, from, to)
  end
  return scale_rows(g, function(row, lane)
    local case = communication(lane)[row.row] and case_at(lane, row)
    if case and case.dimension == dimension and case.each.group_size == from then
      return options.ratio(case.each, from, to)
    end
  end)
end

--- Names that a change of kernels may have, the longest times first: families, operators, passes, kinds of
--- collectives; of rows without any of them the kernels' names.
local function names_in(g, view)
  local ticks, list = {}, {}
  for _, lane in ipairs(g.lanes) do
    local words = words_of(view, lane)
    for _, row in ipairs(g.rows[lane.key]) do
      local each = communication(lane)[row.row] and collective_at(lane, row)
      local named = false
      for _, name in pairs(each and { each.kind } or words[row.row] or {}) do
        if name then ticks[name], named = (ticks[name] or 0) + row.stop - row.ts, true end
      end
      local kernel = g.name[row.start]
      if not named then ticks[kernel] = (ticks[kernel] or 0) + row.stop - row.ts end
    end
  end
  for name, sum in pairs(ticks) do list[#list + 1] = { name = #name > 60 and name:sub(1, 60) or name, ticks = sum } end
  table.sort(list, by("-ticks", "name"))
  for i, each in ipairs(list) do list[i] = i <= 8 and ("'%s'"):format(each.name) or nil end
  return table.concat(list, ", ")
end

--- Dimensions of the parallel layout whose collectives the trace has: "tp=8, dp=4".
local function dimensions_in(g)
  local found, list = {}, {}
  for _, lane in ipairs(g.lanes) do
    for _, case in ipairs(lane:dimensions().cases) do
      local text = case.dimension and ("%s=%s"):format(case.dimension, case.each.group_size)
      if text and not found[text] then found[text], list[#list + 1] = true, text end
    end
  end
  table.sort(list)
  return #list > 0 and table.concat(list, ", ") or "none"
end

--- Why a change applies to nothing.
---@param late string? rank that is not to be late
---@param rank string? rank whose host is to be faster
local function why_nothing(g, view, late, rank, dimension, name)
  if late or rank then
    local list, known = {}, false
    for i, lane in ipairs(g.lanes) do list[i], known = lane.key, known or lane.key == (late or rank) end
    if known and late then return "no rank is waiting for it longer than for the others" end
    if known then return "no host calls of this rank were recorded" end
    return ("its ranks are %s%s"):format(table.concat(list, ", ", 1, math.min(16, #list)), #list > 16 and ", …" or "")
  elseif dimension then
    return "the dimensions of its collectives: " .. dimensions_in(g)
  elseif name:find("^link") then
    return "it has no such communication"
  elseif name == "host" then
    return "no host calls were recorded"
  end
  return "names that it knows: " .. names_in(g, view)
end

--- Applies a change. Forms: "attention*0.5" (a family, operator, host operator, collective or part of a kernel's name),
--- "link*2", "link.intra*2", "link.inter*2" (bandwidth), "host*0.5", "rank 0 not late", "rank 0 host*0.5", "dp=8->64".
---@param options table { gpus_per_node, ratio(collective, from, to), combined (it may apply to nothing) }
---@return integer changed rows or calls
function replay.change(g, view, text, options)
  local changed
  local late = text:match("^%s*rank%s+(%S+)%s+not%s+late%s*$")
  local rank, slower = text:match("^%s*rank%s+(%S+)%s+host%s*%*%s*([%d%.eE+-]+)%s*$")
  local dimension, from, to = text:match("^%s*(%a+)%s*=%s*(%d+)%s*%->%s*(%d+)%s*$")
  local name, scale = text:match("^%s*(.-)%s*%*%s*([%d%.eE+-]+)%s*$")
  local factor = tonumber(slower or scale)
  if (slower or scale) and not (factor and factor > 0 and factor < math.huge) then
    error_module.raise("usage", "what-if: '%s': the factor must be a number above 0", text)
  end
  if late then
    changed = not_late(g, late)
  elseif rank then
    changed = scale_host(g, rank, factor)
  elseif dimension then
    changed = resize(g, dimension, tonumber(from), tonumber(to), options)
  elseif name == "host" then
    changed = scale_host(g, nil, factor)
  elseif name and name:find("^link") then
    local which = name:match("^link%.(%a+)$")
    if name ~= "link" and which ~= "intra" and which ~= "inter" then
      error_module.raise("usage", "what-if: unknown '%s'; known are link, link.intra, link.inter", name)
    end
    changed = scale_link(g, which, factor, options)
  elseif name and name ~= "" then
    changed = scale_named(g, view, name, factor)
  else
    error_module.raise("usage", "what-if: cannot read '%s'; forms: 'attention*0.5', 'link.intra*2', 'host*0.5', "
      .. "'rank 0 not late', 'dp=8->64'", text)
  end
  if changed == 0 and not options.combined then
    error_module.raise("missing", "what-if: '%s' changes nothing in this trace; %s", text,
      why_nothing(g, view, late, rank, dimension, name))
  end
  return changed
end

-- The critical path --------------------------------------------------------------------

--- The name of a step on the path.
local function label(g, n)
  local kind = g.kind[n]
  if kind == "transfer" then return "transfer: " .. g.name[n] end
  if kind == "row" then return "kernel: " .. g.name[n] end
  if kind == "host" or kind == "call" then return "host of rank " .. g.rank[n] end
  return "delay before kernels"
end

--- The last end of a device row in each recording, the last first, and the first start in it by process.
---@return table[] { { last = event, first = { [process key] = ticks } } }
local function recordings_of(g, time)
  local found, list = {}, {}
  for _, lane in ipairs(g.lanes) do
    local process = lane.process.key
    for _, row in ipairs(g.rows[lane.key]) do
      local each = found[row.recording]
      if not each then
        each = { last = row.finish, first = {} }
        found[row.recording], list[#list + 1] = each, each
      end
      if time[row.finish] > time[each.last] then each.last = row.finish end
      each.first[process] = math.min(each.first[process] or math.maxinteger, time[row.start])
    end
  end
  table.sort(list, by(function(each) return -time[each.last] end))
  return list
end

--- The critical path that ends with the last device row, of all recordings together. It begins with the first device
--- row of the rank that it leads to, so it has no host time before that row. { total_ticks, parts = { { name, ticks,
--- count } } (longest first), ranks = { [rank] = ticks }, changes_of_rank, events (last first), from (their starts),
--- run }.
function replay.critical_path(g, run)
  run = run or as_recorded(g) or replay.run(g)
  local time, binding, process = run.time, run.binding, {}
  for _, lane in ipairs(g.lanes) do process[lane.key] = lane.process.key end
  local parts, list, ranks, hops, total, events, starts = {}, {}, {}, 0, 0, {}, {}
  for _, recording in ipairs(recordings_of(g, time)) do
    local n = recording.last
    while n do
      local before, rank = binding[n], g.rank[n]
      local from, at = before and time[before] or time[n], before and g.rank[before] or rank
      local first = recording.first[process[at] or at]
      if first and from <= first then from, before = math.min(first, time[n]), false end
      local ticks = time[n] - from
      local name = label(g, n)
      local part = parts[name]
      if not part then
        part = { name = name, ticks = 0, count = 0 }
        parts[name], list[#list + 1] = part, part
      end
      part.ticks, part.count, total = part.ticks + ticks, part.count + 1, total + ticks
      ranks[rank] = (ranks[rank] or 0) + ticks
      if before and g.rank[before] ~= rank then hops = hops + 1 end
      events[#events + 1], starts[#events + 1], n = n, from, before
    end
  end
  table.sort(list, by("-ticks", "name"))
  return { total_ticks = total, parts = list, ranks = ranks, changes_of_rank = hops, events = events, from = starts,
    run = run }
end

--- The steps of a critical path that take time: { { name, kind, rank, from, to } }, last first.
function replay.steps(g, path)
  local steps, time = {}, path.run.time
  for i, n in ipairs(path.events) do
    if time[n] > path.from[i] then
      steps[#steps + 1] = { name = label(g, n), kind = g.kind[n], rank = g.rank[n], from = path.from[i], to = time[n] }
    end
  end
  return steps
end

return replay

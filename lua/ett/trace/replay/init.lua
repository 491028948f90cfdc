--- Replays a recorded run on its dependency graph, unchanged or with a change.
--
--   local g = replay.graph(view)
--   local run = replay.run(g)                       -- times of all events; the recorded ones without a change
--   replay.change(g, "attention*0.5", options); replay.run(g).span_ticks
--
-- A replay recomputes the effect of changed durations, transfers and host time. It does not model how concurrent
-- kernels slow each other down.
local error_module = require "ett.base.error"
local graph = require "ett.trace.replay.graph"
local operators = require "ett.trace.operators"
local stats = require "ett.trace.stats"

local replay = {}

--- The dependency graph of a view (ett.trace.replay.graph). Changes modify it, so each call builds a new one.
replay.graph = graph.build

--- Events in topological order. Events of a cycle, which invalid data can cause, keep their recorded times.
local function order_of(g)
  if g.order then return g.order end
  local count, after, open = #g.time, {}, {}
  for n = 1, count do
    open[n] = #g.from[n]
    for _, of in ipairs(g.from[n]) do
      local list = after[of]
      if list then list[#list + 1] = n else after[of] = { n } end
    end
  end
  local order, ready = {}, {}
  for n = 1, count do if open[n] == 0 then ready[#ready + 1] = n end end
  local at = 1
  while at <= #ready do
    local n = ready[at]
    order[at] = n
    for _, next_event in ipairs(after[n] or {}) do
      open[next_event] = open[next_event] - 1
      if open[next_event] == 0 then ready[#ready + 1] = next_event end
    end
    at = at + 1
  end
  g.order = order
  return order
end

local function spans(g, time)
  local list, sum = {}, 0
  for _, lane in ipairs(g.lanes) do
    local first, last = math.huge, -math.huge
    for _, row in ipairs(g.rows[lane.key]) do
      first, last = math.min(first, time[row.start]), math.max(last, time[row.finish])
    end
    list[lane.key] = #g.rows[lane.key] > 0 and last - first or 0
    sum = sum + list[lane.key]
  end
  return list, sum / #g.lanes
end

--- Times of all events: { time, binding (the event that each waited for, or nil), spans = { [lane] = ticks },
--- span_ticks (mean), left_out (events of a cycle) }.
function replay.run(g)
  local time, binding = {}, {}
  local order = order_of(g)
  for n = 1, #g.time do time[n] = g.time[n] end
  for _, n in ipairs(order) do
    local from, lag, latest = g.from[n], g.lag[n], nil
    for i = 1, #from do
      local ready = time[from[i]] + lag[i]
      if not latest or ready > latest then latest, binding[n] = ready, from[i] end
    end
    if latest then time[n] = latest + g.delay[n] end
  end
  local by_lane, mean = spans(g, time)
  return { time = time, binding = binding, spans = by_lane, span_ticks = mean, left_out = #g.time - #order }
end

--- Spans as recorded: { [lane] = ticks }, and their mean.
function replay.recorded(g) return spans(g, g.time) end

-- Changes ------------------------------------------------------------------------------

--- Scales the durations of device rows for which factor(row, lane) returns a number.
local function scale_rows(g, factor)
  local changed = 0
  for _, lane in ipairs(g.lanes) do
    for _, row in ipairs(g.rows[lane.key]) do
      local by = factor(row, lane)
      if by then
        g.delay[row.finish] = g.delay[row.finish] * by
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
      local each = row.collective
      return each and each.kind == name and factor or nil
    end
    for _, word in pairs(words_of(view, lane)[row.row] or {}) do
      if parts[word] then return factor end
    end
    return row.name:find(name, 1, true) and factor or nil
  end)
end

--- Whether the ranks of a collective are all in one node of `per_node` ranks.
local function is_intra(row, per_node)
  local each = row.collective and row.collective.each
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
    local intra = is_intra(row, options.gpus_per_node or 8)
    if which and (which == "intra") ~= intra then return nil end
    return 1 / factor
  end)
end

local function scale_host(g, rank, factor)
  local changed = 0
  for n, what in ipairs(g.what) do
    if what.kind == "host" and (not rank or what.rank == rank) then
      g.delay[n] = g.delay[n] * factor
      changed = changed + 1
    end
  end
  return changed
end

--- The rank starts each matched collective as long after its previous one as the median of the other ranks.
local function not_late(g, key)
  local changed, before = 0, {}
  for _, row in ipairs(g.rows[key] or {}) do
    local each = row.collective
    if each then
      local last = before[each.group]
      if last then
        local others, own = {}, nil
        for r, other in ipairs(each.rows) do
          local gap = other.ts - last.rows[r].stop
          if other == row then own = gap else others[#others + 1] = gap end
        end
        if #others > 0 and own and own > stats.median(others) then
          g.from[row.start], g.lag[row.start], g.delay[row.start] = { last.row.finish }, { stats.median(others) }, 0
          changed = changed + 1
        end
      end
      before[each.group] = { rows = each.rows, row = row }
    end
  end
  return changed
end

--- The case (ett.trace.parallel) of a lane's collective at the times of a row, or nil.
local function case_at(lane, row)
  local cases = lane:cached("cases_by_time", function()
    local by_start, found = {}, lane:dimensions()
    for _, c, start, stop in found.sequence:iter() do
      by_start[start] = by_start[start] or {}
      by_start[start][stop] = by_start[start][stop] or found.cases[c]
    end
    return by_start
  end)
  return cases[row.ts] and cases[row.ts][row.stop]
end

--- Another degree of a dimension: scales the transfers of its collectives by options.ratio(each, from, to).
local function resize(g, dimension, from, to, options)
  if not options.ratio then error_module.raise("usage", "what-if: '%s=%d->%d' needs a cluster", dimension, from, to) end
  return scale_rows(g, function(row, lane)
    local each = row.collective
    if not each then return nil end
    local case = case_at(lane, row)
    if case and case.dimension == dimension and case.each.group_size == from then
      return options.ratio(case.each, from, to)
    end
  end)
end

--- Applies a change. Forms: "attention*0.5" (a family, operator, host operator, collective or part of a kernel's name),
--- "link*2", "link.intra*2", "link.inter*2" (bandwidth), "host*0.5", "rank 0 not late", "rank 0 host*0.5", "dp=8->64".
---@param options table { gpus_per_node, ratio(collective, from, to) }
---@return integer changed rows or calls
function replay.change(g, view, text, options)
  g.order = nil
  local changed
  local late = text:match("^%s*rank%s+(%S+)%s+not%s+late%s*$")
  local rank, slower = text:match("^%s*rank%s+(%S+)%s+host%s*%*%s*([%d%.eE+-]+)%s*$")
  local dimension, from, to = text:match("^%s*(%a+)%s*=%s*(%d+)%s*%->%s*(%d+)%s*$")
  local name, by = text:match("^%s*(.-)%s*%*%s*([%d%.eE+-]+)%s*$")
  local factor = tonumber(slower or by)
  if (slower or by) and not (factor and factor > 0 and factor < math.huge) then
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
  if changed == 0 then error_module.raise("missing", "what-if: '%s' changes nothing in this trace", text) end
  return changed
end

-- The critical path --------------------------------------------------------------------

--- The name of a step on the path.
local function label(what)
  if what.kind == "transfer" then return "transfer: " .. what.name end
  if what.kind == "row" then return "kernel: " .. what.name end
  if what.kind == "host" or what.kind == "call" then return "host of rank " .. what.rank end
  return "delay before kernels"
end

--- The critical path that ends with the last device row: { total_ticks, parts = { { name, ticks, count } } (longest
--- first), ranks = { [rank] = ticks }, changes_of_rank, steps = { { name, kind, rank, from, to } } (last first) }.
function replay.critical_path(g, run)
  run = run or replay.run(g)
  local n, stop = nil, -math.huge
  for _, lane in ipairs(g.lanes) do
    for _, row in ipairs(g.rows[lane.key]) do
      if run.time[row.finish] > stop then n, stop = row.finish, run.time[row.finish] end
    end
  end
  local parts, list, ranks, hops, seen, total, steps = {}, {}, {}, 0, {}, 0, {}
  while n and not seen[n] do
    seen[n] = true
    local before = run.binding[n]
    local ticks = before and run.time[n] - run.time[before] or 0
    local what = g.what[n]
    local name = label(what)
    local part = parts[name]
    if not part then
      part = { name = name, ticks = 0, count = 0 }
      parts[name], list[#list + 1] = part, part
    end
    part.ticks, part.count, total = part.ticks + ticks, part.count + 1, total + ticks
    ranks[what.rank] = (ranks[what.rank] or 0) + ticks
    if before and g.what[before].rank ~= what.rank then hops = hops + 1 end
    if ticks > 0 then
      steps[#steps + 1] = { name = name, kind = what.kind, rank = what.rank, from = run.time[before], to = run.time[n] }
    end
    n = before
  end
  table.sort(list, function(a, b)
    if a.ticks ~= b.ticks then return a.ticks > b.ticks end
    return a.name < b.name
  end)
  return { total_ticks = total, parts = list, ranks = ranks, changes_of_rank = hops, steps = steps }
end

return replay

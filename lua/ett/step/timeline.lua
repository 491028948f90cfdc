--- What every resource of every pipeline stage does during a predicted step.
--
--   local e = estimate.new { …, units = true }
--   local t = timeline.of(e)
--   t.stages[1].units[1]      -- { kind = "F", micro_batch, chunk, start, seconds, parts }
--   t.stages[1].messages[1]   -- { name, lane = "sends" | "gradients" | "weights" | "update", start, seconds, … }
--
-- Units are those of the event engine. The parts of a unit are its operators and collectives in the order of the
-- layer, backwards in the backward pass. A part has the resources that it keeps busy: "compute", "node" (links inside
-- a node) or "network". A collective that hides behind a product begins before its place.
local schedules = require "ett.plan.schedules"
local step_core = require "ett.step"

local timeline = {}

local function link_of(operation)
  if operation.kind ~= "collective" then return "compute" end
  return operation.link == "network" and "network" or "node"
end

--- One part: an operation that runs `times` times in a row.
local function add(parts, operation, pass, times, share)
  local times_of = operation[pass]
  if not times_of or times_of[1] * times * share <= 0 and (operation.beside_seconds or 0) <= 0 then return end
  parts.seconds = parts.seconds + times_of[1] * times * share
  parts[#parts + 1] = { name = operation.name, resource = link_of(operation), group = operation.group,
    degree = operation.degree, bytes = operation.bytes, shape = operation.shape, pass = pass,
    flops = (operation.flops or 0) / 3 * (pass == "backward" and 2 or 1) * times,
    times = times, seconds = times_of[1] * times * share, hidden = (operation.beside_seconds or 0) * times * share }
end

--- Operations of one layer in order, { { operation, times } }, and those that lowering added behind them.
local function items_of(kind, operations)
  local list, rest, seen = {}, {}, {}
  for _, item in ipairs(kind.order) do
    list[#list + 1] = { operations[item[1]], item[2] }
    seen[item[1]] = true
  end
  for index in pairs(kind.uses) do if not seen[index] then rest[#rest + 1] = index end end
  table.sort(rest)
  for i, index in ipairs(rest) do rest[i] = { operations[index], kind.uses[index] } end
  return list, rest
end

local recomputed = {
  none = function() return 0 end,
  selective = function(o) return o.selective and 1 or 0 end,
  half = function() return 0.5 end,
  full = function() return 1 end,
}

local function add_forward(parts, items, share)
  for _, item in ipairs(items) do
    local s = share(item[1])
    if s > 0 then add(parts, item[1], "forward", item[2], s) end
  end
end

--- The backward pass of a layer; of a split one, without what only gradients of weights need.
local function add_backward(parts, items, rest, whole)
  local function put(item)
    local share = whole and 1 or 1 - item[1].weight_share
    if share > 0 then add(parts, item[1], "backward", item[2], share) end
  end
  for i = #items, 1, -1 do put(items[i]) end
  for _, item in ipairs(rest) do put(item) end
end

--- What a split backward pass leaves for later.
local function add_weights(parts, items)
  for _, item in ipairs(items) do
    if item[1].weight_share > 0 then add(parts, item[1], "backward", item[2], item[1].weight_share) end
  end
end

local function once() return 1 end

--- The layers of every slice of the model, first to last: lists of kinds.
local function layers_of_slices(e, kinds)
  local slices, p = {}, e.plan
  local middle, count = {}, p.pp * p.vp
  for _, kind in ipairs(kinds) do
    if kind.place == "middle" then for _ = 1, kind.count do middle[#middle + 1] = kind end end
  end
  local split, at = p.split or step_core.split(#middle, count), 0
  for v = 1, count do
    slices[v] = {}
    for i = at + 1, at + split[v] do slices[v][i - at] = middle[i] end
    at = at + split[v]
  end
  for _, kind in ipairs(kinds) do
    if kind.place ~= "middle" then
      local slice = kind.place == "first" and slices[1] or slices[count]
      for _ = 1, kind.count do
        if kind.place == "first" then table.insert(slice, 1, kind) else slice[#slice + 1] = kind end
      end
    end
  end
  return slices
end

--- The parts of one unit of a slice. kind: F, B, W, or "input": a backward of input gradients only.
---@param lowered table of the part of the cluster that the stage is on
local function parts_of(e, lowered, layers, kind)
  local parts, operations = { seconds = 0.0 }, lowered.operations
  local again = recomputed[e.plan.recompute]
  local first, last, step = 1, #layers, 1
  if kind ~= "F" then first, last, step = #layers, 1, -1 end
  for i = first, last, step do
    local items, rest = items_of(layers[i], operations)
    if kind == "F" then
      add_forward(parts, items, once)
      add_forward(parts, rest, once)
    elseif kind == "W" then
      add_weights(parts, items)
      add_weights(parts, rest)
    else
      if layers[i].place == "middle" then add_forward(parts, items, again) end
      add_backward(parts, items, rest, kind == "B")
    end
  end
  return parts
end

--- Lays parts over `seconds` from `from` on: shrunk where that is shorter (hidden in a pair), with a rest where it is
--- longer (gathered weights under ZeRO-3).
local function lay(parts, from, seconds, rest)
  local scale = parts.seconds > seconds and seconds / parts.seconds or 1
  local at, laid = from, {}
  if seconds > parts.seconds * (1 + 1e-9) + 1e-12 then
    at = from + seconds - parts.seconds
    laid[1] = { name = rest, resource = "wait", start = from, seconds = at - from, times = 1, hidden = 0.0 }
  end
  for _, part in ipairs(parts) do
    local copy = {}
    for key, value in pairs(part) do copy[key] = value end
    copy.seconds, copy.hidden = part.seconds * scale, part.hidden * scale
    copy.start = at
    at = at + copy.seconds
    laid[#laid + 1] = copy
  end
  return laid
end

--- Whether the output of a unit leaves its stage.
local function leaving(e, slices)
  local p, stages = e.plan, {} -- of each way and slice
  local function key(chunk, slice) return ("%d %d"):format((chunk - 1) // p.vp, slice) end
  for slot, slice in ipairs(slices) do stages[key((slot - 1) // p.pp + 1, slice)] = (slot - 1) % p.pp + 1 end
  return function(stage, unit)
    local step = unit.kind == "F" and 1 or unit.kind ~= "W" and -1
    local to = step and stages[key(unit.chunk, slices[(unit.chunk - 1) * p.pp + stage] + step)]
    return to and to ~= stage and to
  end
end

--- Messages between stages: as the engine sends them, one after the other in each direction.
local function add_sends(stage, e, leaves)
  local s, sends, free = e.stages[stage.number], {}, {}
  for _, unit in ipairs(stage.units) do
    local to = leaves(stage.number, unit)
    if to then sends[#sends + 1] = { unit, to } end
  end
  if #sends == 0 or s.send_seconds <= 0 then return end
  local each, bytes = s.send_seconds / #sends, nil
  for _, d in ipairs(e.demands) do if d.kind == "send_recv" then bytes = math.max(bytes or 0, d.bytes) end end
  table.sort(sends, function(a, b) return a[1].start + a[1].seconds < b[1].start + b[1].seconds end)
  for _, send in ipairs(sends) do
    local unit, link = send[1], e.plan.overlap_sends and send[1].kind or "all"
    local start = math.max(free[link] or 0.0, unit.start + unit.seconds)
    free[link] = start + each
    stage.messages[#stage.messages + 1] = { name = "send_recv", lane = "sends", start = start, seconds = each,
      bytes = bytes, group = "pp", degree = 2, micro_batch = unit.micro_batch, to = send[2],
      direction = ("%s to stage %d"):format(unit.kind == "F" and "activations" or "gradients", send[2]) }
  end
end

--- What follows the pipeline on a stage.
local function add_update(stage, e)
  local p, s = e.plan, e.stages[stage.number]
  local function put(name, lane, start, seconds, more)
    if seconds <= 0 then return end
    local message = { name = name, lane = lane, start = math.max(0.0, start), seconds = seconds }
    for key, value in pairs(more or {}) do message[key] = value end
    stage.messages[#stage.messages + 1] = message
  end
  local reduced = s.pipeline_seconds + s.gradient_exposed_seconds
  local ranks = p.dp * p.cp
  local reduce = (p.zero > 0 and not p.gradient_all_reduce) and "reduce_scatter" or "all_reduce"
  -- Of one message the part that hides is listed first, the exposed part behind it.
  local function split(name, lane, start, seconds, exposed, bytes)
    local hidden = math.max(0.0, seconds - exposed)
    local share = seconds > 0 and exposed / seconds or 1
    put(name, lane, start - hidden, hidden, { group = "dp", degree = ranks, bytes = bytes * (1 - share) })
    put(name, lane, start, exposed, { group = "dp", degree = ranks, bytes = bytes * share, exposed = true })
  end
  split(reduce, "gradients", s.pipeline_seconds, s.gradient_seconds, s.gradient_exposed_seconds, s.gradient_bytes)
  put("all_reduce", "gradients", reduced, s.tied_embedding_seconds,
    { group = "tied embedding", degree = 2, exposed = true })
  put("optimizer", "update", s.end_seconds - s.gather_exposed_seconds - s.optimizer_seconds, s.optimizer_seconds,
    { exposed = true })
  put("all_gather", "weights", s.end_seconds - s.gather_exposed_seconds, s.gather_exposed_seconds,
    { group = "dp", degree = ranks, bytes = s.weight_bytes, exposed = true })
end

--- The layers of each slice as text: slices of the same layers share their parts.
local function names_of(layers)
  local names = {}
  for v, list in ipairs(layers) do
    local words = {}
    for i, kind in ipairs(list) do words[i] = ("%p"):format(kind) end
    names[v] = table.concat(words, " ")
  end
  return names
end

--- The parts of a unit by itself.
local function plain_parts(state, unit, slice)
  local plain = unit.work .. " " .. state.on.names[slice]
  state.plain[plain] = state.plain[plain] or parts_of(state.e, state.on.lowered, state.on.layers[slice], unit.work)
  return state.plain[plain]
end

--- The parts of a unit; `share` is its place in the time of a pair: { from, to }, from 0 to 1.
local function parts_in(state, unit, slice, share)
  local key = ("%s %s %.9g %.9g %.9g"):format(unit.work, state.on.names[slice], unit.seconds, share[1], share[2])
  if not state.laid[key] then
    local plain = plain_parts(state, unit, slice)
    state.laid[key] = lay(plain, unit.seconds * share[1], unit.seconds * (share[2] - share[1]),
      state.e.plan.zero == 3 and "gathers of weights" or "waits")
  end
  return state.laid[key]
end

--- Gives the units of a stage their parts. Two that run as a pair share its time in proportion to their own.
local function add_parts(state, stage)
  local units, pp, i = stage.units, state.e.plan.pp, 1
  local function slice_of(unit) return state.slices[(unit.chunk - 1) * pp + stage.number] end
  while i <= #units do
    local a, b = units[i], units[i + 1]
    if b and b.start == a.start and b.seconds == a.seconds and a.seconds > 0 then
      local x = plain_parts(state, a, slice_of(a)).seconds
      local y = plain_parts(state, b, slice_of(b)).seconds
      local share = x + y > 0 and x / (x + y) or 0.5
      a.parts = parts_in(state, a, slice_of(a), { 0.0, share })
      b.parts = parts_in(state, b, slice_of(b), { share, 1.0 })
      a.paired, b.paired = true, true
      i = i + 2
    else
      a.parts = parts_in(state, a, slice_of(a), { 0.0, 1.0 })
      i = i + 1
    end
  end
end

--- The timeline of an estimate made with units = true.
function timeline.of(e)
  local state, of_part = { e = e, slices = schedules.slices(e.plan), plain = {}, laid = {} }, {}
  for k, lowered in ipairs(e.lowered.parts) do
    local layers = layers_of_slices(e, lowered.kinds)
    of_part[k] = { lowered = lowered, layers = layers, names = names_of(layers) }
  end
  local leaves, stages = leaving(e, state.slices), {}
  for number, units in ipairs(e.units) do
    local stage = { number = number, units = {}, messages = {} }
    local split = false
    for _, u in ipairs(units) do split = split or u[1] == "W" end
    for i, u in ipairs(units) do
      local kind = u[1] == "BW" and "B" or u[1]
      stage.units[i] = { kind = kind, work = split and u[1] == "B" and "input" or kind, micro_batch = u[2],
        chunk = u[3], start = u.start_seconds, seconds = u.seconds }
    end
    state.on = of_part[e.stages[number].part or 1]
    add_parts(state, stage)
    add_sends(stage, e, leaves)
    add_update(stage, e)
    stages[number] = stage
  end
  return { stages = stages, seconds = e.step_seconds }
end

return timeline

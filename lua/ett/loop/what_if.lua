--- Predicts the duration of a recorded run after a change.
local error_module = require "ett.base.error"
local replay = require "ett.trace.replay"
local subject = require "ett.loop.subject"
local times_module = require "ett.step.times"
local wires = require "ett.loop.wires"

local what_if = {}

--- Time of a collective of `to` ranks over its time with `from` ranks on a cluster. The whole buffer of an all-gather
--- or a reduce-scatter is constant.
local function ratio_on(cluster)
  local times = times_module.new(cluster)
  local what = { cluster = cluster, plan = { dtype = "bf16" } }
  return function(each, from, to)
    local function seconds(size)
      return (wires.predict({ kind = each.kind, bytes = each.bytes, group_size = size }, times, what))
    end
    local now, new = seconds(from), seconds(to)
    if not (now and new) then
      error_module.raise("model", "what-if: cluster %s gives no time for %s over %d ranks", cluster.name, each.kind, to)
    end
    return new / now
  end
end

--- The longest parts of the unchanged run's critical path: { { name, share } }, at most three.
local function longest_parts(g, plain)
  local path, list = replay.critical_path(g, plain), {}
  for i = 1, path.total_ticks > 0 and math.min(3, #path.parts) or 0 do
    list[i] = { name = path.parts[i].name, share = path.parts[i].ticks / path.total_ticks }
  end
  return list
end

--- Share of the device rows whose waits for other streams are recorded.
local function recorded_waits(g)
  local rows, exact = 0, 0
  for _, list in pairs(g.rows) do
    rows = rows + #list
    for _, row in ipairs(list) do exact = exact + (row.exact and 1 or 0) end
  end
  return rows > 0 and exact / rows or 0.0
end

--- Replays a trace unchanged, with each change alone, and with all changes: { recorded_seconds, replayed_seconds,
--- events, recorded_waits, changes = { { change, seconds, ratio, changed } }, critical_path = { { name, share } } }.
--- Seconds are the mean span of a device.
---@param view table of ett.trace.view
---@param texts string[] of replay.change
---@param cluster table? for changes of a dimension's degree; default: the one with the trace's device
function what_if.run(view, texts, cluster)
  cluster = cluster or subject.cluster_of(view)
  local options = { gpus_per_node = cluster and cluster.gpus_per_node, ratio = cluster and ratio_on(cluster) }
  local g = replay.graph(view)
  local _, recorded = replay.recorded(g)
  local plain = replay.run(g)
  local result = { recorded_seconds = view:s(recorded), replayed_seconds = view:s(plain.span_ticks), events = #g.time,
    left_out = plain.left_out, recorded_waits = recorded_waits(g), changes = {},
    critical_path = longest_parts(g, plain) }
  local delay = g.delay
  local function add_change(name, list)
    local changed = 0
    options.combined = #list > 1 -- the changes before may leave nothing to change
    g.delay = table.move(delay, 1, #delay, 1, {}) -- all that a change modifies
    for _, text in ipairs(list) do changed = changed + replay.change(g, view, text, options) end
    local ticks = replay.run(g).span_ticks
    table.insert(result.changes, { change = name, seconds = view:s(ticks), ratio = ticks / recorded,
      changed = changed })
  end
  for _, text in ipairs(texts) do add_change(text, { text }) end
  if #texts > 1 then add_change("all of these", texts) end
  return result
end

function what_if.lines(result)
  local lines = { ("recorded %.3f ms, replayed without a change %.3f ms (%d events); mean span of a device"):format(
    result.recorded_seconds * 1e3, result.replayed_seconds * 1e3, result.events) }
  if result.recorded_waits > 0 then
    lines[2] = ("waits for other streams are recorded for %.0f %% of the device rows%s"):format(
      100 * result.recorded_waits, result.recorded_waits < 1 and ", inferred for the others" or "")
  end
  local width, none = 0, false
  for _, row in ipairs(result.changes) do width = math.max(width, #row.change) end
  for _, row in ipairs(result.changes) do
    lines[#lines + 1] = ("  %s%s  %10.3f ms  %+6.2f %%"):format(row.change, (" "):rep(width - #row.change),
      row.seconds * 1e3, 100 * (row.ratio - 1))
    none = none or math.abs(row.ratio - 1) < 0.00005 -- shown as 0.00 %
  end
  if none and #result.critical_path > 0 then
    lines[#lines + 1] = "  only a change on the critical path saves time; its longest parts:"
    for _, part in ipairs(result.critical_path) do
      lines[#lines + 1] = ("  %5.1f %%  %s"):format(100 * part.share, part.name)
    end
  end
  return lines
end

return what_if

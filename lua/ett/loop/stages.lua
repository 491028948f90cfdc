--- Pipeline stages, measured and predicted: of a trace the operators of each stage, of per-micro-batch timings the
--- units of each stage.
local estimate = require "ett.step.estimate"
local ranks = require "ett.plan.ranks"
local stats = require "ett.trace.stats"

local stages = {}

--- Adds to a row predicted over measured seconds; none if nothing was measured.
local function with_ratio(row)
  row.ratio = row.measured_seconds > 0 and row.predicted_seconds / row.measured_seconds or nil
  return row
end

--- Operators by stage, a mean over its devices: { stage, unit, count, measured_seconds, predicted_seconds, ratio } of
--- those that have a prediction. Empty without a pipeline, or with unknown ranks.
---@param devices table[] of ett.trace.operators.of_view
---@param lines table[] of ett.loop.match
---@param rows table[] of ett.loop.against, one for each line
function stages.of_runs(view, devices, plan, lines, rows)
  local list = {}
  if plan.pp == 1 or plan.rank_map then return list end
  local home = {}
  for i, device in ipairs(devices) do
    if not device.rank then return list end
    local stage = ranks.stage_of(plan, device.rank)
    home[i] = list[stage] or { stage = stage, unit = "operators", devices = 0, count = 0, measured_seconds = 0.0,
      predicted_seconds = 0.0 }
    list[stage], home[i].devices = home[i], home[i].devices + 1
  end
  for i, line in ipairs(lines) do
    local predicted = rows[i].predicted_seconds
    for k, place in ipairs(predicted and line.places or {}) do
      local row = home[place.device]
      row.count, row.measured_seconds = row.count + 1, row.measured_seconds + view:s(line.list[k])
      row.predicted_seconds = row.predicted_seconds + predicted
    end
  end
  local found = {}
  for stage = 1, plan.pp do
    local row = list[stage]
    if row then
      for _, name in ipairs { "count", "measured_seconds", "predicted_seconds" } do
        row[name] = row[name] / row.devices
      end
      found[#found + 1] = with_ratio(row)
    end
  end
  return found
end

local recorded_units = { F = { "forward", "fwd" }, B = { "backward", "bwd" }, W = { "weight gradient", "wgrad" } }

--- Durations in seconds of the units of a rank in all iterations but the first, which includes start-up.
local function durations(rank, name)
  local list = {}
  for i = math.min(2, #rank.iterations), #rank.iterations do
    local record = rank.records[rank.iterations[i]]
    local from, to = record[name .. "_start"] or {}, record[name .. "_end"] or {}
    for m = 1, math.min(#from, #to) do list[#list + 1] = (to[m] - from[m]) * 1e-3 end
  end
  return list
end

--- Units of per-micro-batch timings by stage: { stage, unit, count, measured_seconds (median), predicted_seconds
--- (mean), ratio }.
---@param timings table of ett.trace.pipeline
---@param subject table of ett.loop.subject
function stages.of_timings(timings, subject)
  local e = estimate.new { model = subject.model, plan = subject.plan, cluster = subject.cluster,
    profile = subject.profile, units = true }
  local list = {}
  for _, rank in ipairs(timings.ranks) do
    local predicted = {}
    for _, unit in ipairs(e.units[rank.rank + 1] or {}) do
      local kind = unit[1] == "BW" and "B" or unit[1]
      predicted[kind] = predicted[kind] or {}
      table.insert(predicted[kind], unit.seconds)
    end
    for _, kind in ipairs { "F", "B", "W" } do
      local measured = durations(rank, recorded_units[kind][2])
      if #measured > 0 and predicted[kind] then
        list[#list + 1] = with_ratio { stage = rank.rank + 1, unit = recorded_units[kind][1], count = #measured,
          measured_seconds = stats.median(measured), predicted_seconds = stats.mean(predicted[kind]) }
      end
    end
  end
  return list
end

return stages

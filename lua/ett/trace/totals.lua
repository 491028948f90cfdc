--- Per-device totals shared by several metrics, and metrics with one number per device.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"
local stats = require "ett.trace.stats"

local totals = {}

--- Args of TPU rows that the totals read.
totals.args = { "hlo_category", "long_name", "device_duration_ps", "model_flops", "shape_with_layout" }

--- Result of a metric that is one number per device: {[name] = mean or sum, per_device = {...}}.
---@param fold string "mean" or "sum" over the devices
---@param value function of a lane; nil or null if unknown
function totals.per_device(view, name, fold, value)
  local map, list = {}, {}
  for _, lane in ipairs(view:lanes()) do
    local each = value(lane)
    map[lane.key] = stats.known(each)
    if each ~= nil and each ~= stats.null then list[#list + 1] = each end
  end
  local total = stats.null
  if fold == "mean" then
    total = stats.mean(list)
  elseif #list > 0 then
    total = list[1]
    for i = 2, #list do total = total + list[i] end
  end
  return { [name] = total, per_device = map, over_devices = fold }
end

--- A metric with one number per device. Besides the fields of any metric: unit; value(lane, view); fold = "sum"
--- (default "mean"); lacking: what is missing in the trace if no device has a value.
function totals.metric(m)
  local lacking, fold, value = m.lacking, m.fold or "mean", m.value
  schema.argument(value, "function", "totals.metric", "value")
  local where = schema.place(value)
  local function checked(each)
    if each == nil or each == stats.null or type(each) == "number" and each - each == 0 then return each end
    error_module.raise("model", "%s: 'value' must return a finite number, or nil if it is unknown, got %s", where,
      schema.describe(each))
  end
  m.units, m.unit, m.lacking, m.fold, m.value = { [m.name] = m.unit }, nil, nil, nil, nil
  function m.compute(view)
    local out = totals.per_device(view, m.name, fold, function(lane) return checked(value(lane, view)) end)
    if lacking and out[m.name] == stats.null then view:missing("%s", lacking) end
    return out
  end
  return m
end

--- Why a metric of model_flops has no value.
totals.no_flops = "needs the argument model_flops on device rows; no row has it"

--- FLOPs per token and parameter: 6 in training, 2 in inference (Kaplan et al., 2020, section 2.1). Without a phase in
--- the card, a trace with host operators and no backward pass counts as inference.
function totals.flops_per_parameter(view)
  local phase = view:card().phase
  if phase then return (phase == "inference" or phase == "serving") and 2.0 or 6.0 end
  return view:training() == false and 2.0 or 6.0
end

--- FLOPs per token, and their source.
function totals.flops_per_token(view)
  if view.options.flops_per_token then return view.options.flops_per_token, "given" end
  local params = view:fact("num_params", "model_params")
  if not params then view:missing("needs --model-params, num_params in the card, or --flops-per-token") end
  local factor = totals.flops_per_parameter(view)
  return factor * params, ("%d x parameters (%s)"):format(factor, factor == 2 and "inference" or "training")
end

--- Tokens estimated from the model_flops of all cores: { tokens=, wall_s=, flops=, flops_per_token=, how= }.
function totals.tokens(view)
  local per_token, how = totals.flops_per_token(view)
  local flops, walls, any = 0.0, {}, false
  for i, lane in ipairs(view:lanes()) do
    local each = lane:model_flops()
    if each then flops, any = flops + each, true end
    walls[i] = view:s(lane:span_ticks())
  end
  if not any then view:missing("%s", totals.no_flops) end
  return { tokens = flops / per_token, wall_s = stats.mean(walls), flops = flops, flops_per_token = per_token,
    how = how }
end

--- Mean bandwidth in bytes/s of a lane's collectives with known bytes and time.
function totals.bandwidth(lane)
  local bytes, all, kept = 0.0, lane:collectives(), {}
  local _, longer = all.sequence:totals()
  for i, each in ipairs(all.sorts) do
    kept[i] = each.bytes ~= nil
    bytes = bytes + (each.bytes or 0) * longer[i]
  end
  local ticks, n = all.sequence:sum(kept, true)
  if n == 0 then return nil, 0 end
  return bytes / lane.view:s(ticks), n
end

return totals

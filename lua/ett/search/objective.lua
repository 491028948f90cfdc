--- Objectives and limits of a search: what a plan's step means for a setting.
--
-- On one cluster and number of devices every objective but memory rises with the step's seconds. So each is the step
-- times a factor of the setting, and a limit of it is a limit of the step.
local error_module = require "ett.base.error"

local objective = {}

local day = 86400.0

--- Steps of a run of so many tokens.
local function steps(setting, tokens) return math.ceil(tokens / setting.tokens_per_step) end

local function price(setting)
  return setting.cluster.price_per_gpu_hour
end

local function need_tokens(name, given)
  if not given.tokens then
    error_module.raise("usage", "search: %s needs the tokens of the run: tokens = 1e12, or --tokens 1e12", name)
  end
  return given.tokens
end

--- name -> { unit, help, factor(setting, given): value = step_seconds * factor, largest }. largest: more is better;
--- the value is then the inverse of seconds times the factor.
objective.list = {
  step_seconds = { help = "seconds of a step", factor = function() return 1.0 end },
  tokens_per_second = { help = "tokens a second, the most", largest = true,
    factor = function(setting) return 1.0 / setting.tokens_per_step end },
  tokens_per_second_per_device = { help = "the same for each device, the most", largest = true,
    factor = function(setting) return setting.devices / setting.tokens_per_step end },
  days = { help = "days to --tokens", factor = function(setting, given)
    return steps(setting, need_tokens("the objective 'days'", given)) / day * setting.slower
  end },
  dollars = { help = "dollars to --tokens", factor = function(setting, given)
    local tokens = need_tokens("the objective 'dollars'", given)
    return steps(setting, tokens) * setting.devices / 3600.0 * price(setting) * setting.slower
  end },
  devices = { help = "devices, the fewest", constant = function(setting) return setting.devices end },
  memory_bytes = { help = "bytes of the fullest device", memory = true },
}

--- The names of the objectives, sorted.
function objective.names()
  local names = {}
  for name in pairs(objective.list) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- The objective of a name, checked.
function objective.get(name)
  local found = objective.list[name]
  if not found then
    error_module.raise("usage", "search: unknown objective '%s'%s; known are %s", tostring(name),
      error_module.suggestion(tostring(name), objective.names()), table.concat(objective.names(), ", "))
  end
  return found
end

local function need_price(setting, what)
  if not price(setting) then
    error_module.raise("model", "search: %s needs a price, and the cluster %s has none (field price_per_gpu_hour)",
      what, setting.cluster.name)
  end
end

--- Fills a setting with what its plans share: tokens a step, limits of the step, factors of the objectives.
---@param given table { objectives = list of names, tokens?, budget?, days?, headroom }
function objective.prepare(setting, given)
  setting.tokens_per_step = (setting.plan.global_batch + 0.0) * setting.plan.seq
  setting.slower = 1.0
  setting.memory_limit_bytes = setting.cluster.device.memory_bytes * (1 - given.headroom)
  local limit, by = math.huge, nil
  local function at_most(seconds, name)
    if seconds < limit then limit, by = seconds, name end
  end
  if given.days then
    need_tokens("a limit of days", given)
    at_most(given.days / objective.list.days.factor(setting, given), "days")
  end
  if given.budget then
    need_price(setting, "a budget")
    need_tokens("a budget", given)
    at_most(given.budget / objective.list.dollars.factor(setting, given), "budget")
  end
  setting.most_seconds, setting.limited_by = limit, by
  setting.factors = {}
  for i, name in ipairs(given.objectives) do
    if name == "dollars" then need_price(setting, "the objective 'dollars'") end
    local o = objective.get(name)
    setting.factors[i] = o.factor and o.factor(setting, given) or false
  end
end

--- The values of a row by which plans are compared, smaller is better.
function objective.values(setting, names, step_seconds, memory_bytes)
  local list = {}
  for i, name in ipairs(names) do
    local o = objective.list[name]
    list[i] = o.memory and memory_bytes or o.constant and o.constant(setting) or step_seconds * setting.factors[i]
  end
  return list
end

--- Adds to a row what its step means: throughput, days, dollars.
function objective.describe(row, setting, given)
  local tokens, step = setting.tokens_per_step, row.step_seconds
  row.tokens_per_second = tokens / step
  row.tokens_per_second_per_device = tokens / step / setting.devices
  local hourly = price(setting)
  if hourly then row.dollars_per_billion_tokens = hourly * setting.devices * step / 3600.0 / tokens * 1e9 end
  if given.tokens then
    row.days = step * objective.list.days.factor(setting, given)
    if hourly then row.dollars = step * objective.list.dollars.factor(setting, given) end
  end
end

return objective

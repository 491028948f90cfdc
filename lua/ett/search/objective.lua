--- Objectives and limits of a search, computed from a plan's step and setting.
--
-- On one cluster and number of devices, every objective except memory is at least step seconds times a factor of the
-- setting. A limit of the objective is therefore a limit of the step. Days, dollars and kWh include failures and
-- checkpoints if the cluster states them (ett.step.goodput), which makes them slightly larger.
local architecture = require "ett.model.architecture"
local cost = require "ett.step.cost"
local energy = require "ett.step.energy"
local error_module = require "ett.base.error"
local goodput = require "ett.step.goodput"
local schema = require "ett.base.schema"

local objective = {}

local day = 86400.0

-- Lower bound of the total of an amount per step, over the run of any plan of a setting.
local function of_run(setting, amount)
  return cost.of_run(setting.steps, amount, setting.most_goodput) or math.huge
end

--- name -> { factor = of a setting: value >= step_seconds * factor, run = it refers to a whole run, or constant or
--- memory }
objective.list = {
  step_seconds = { factor = function() return 1.0 end },
  tokens_per_second = { factor = function(s) return 1.0 / s.tokens_per_step end },
  tokens_per_second_per_device = { factor = function(s) return s.devices / s.tokens_per_step end },
  days = { run = true, factor = function(s) return of_run(s, s.least_varied) / day end },
  dollars = { run = true,
    factor = function(s) return of_run(s, cost.of_devices(s.price, s.devices, s.least_varied)) end },
  kwh = { run = true, factor = function(s) return of_run(s, s.idle_kw * s.least_varied / 3600) end },
  devices = { constant = function(s) return s.devices end },
  seq = { constant = function(s) return -s.plan.seq end }, -- longest first
  memory_bytes = { memory = true },
}

function objective.names() return schema.keys(objective.list) end

--- The objective with a name; raises if it is unknown.
function objective.get(name)
  local found = objective.list[name]
  if not found then
    error_module.raise("usage", "search: %s", error_module.unknown("objective", name, objective.names()))
  end
  return found
end

-- Arguments that limit a run, and the limited objective of each. A row has it as run_days, run_dollars, run_kwh.
objective.limits = { days = "days", budget = "dollars", kwh = "kwh" }

--- Checks that a setting has the inputs of an objective or a limit.
local function check(setting, value, what, given)
  if objective.list[value].run and not given.tokens then
    error_module.raise("usage", "search: %s needs the tokens of the run, such as --tokens 1e12 (in a script "
      .. "tokens = 1e12)", what)
  end
  if value == "dollars" and not setting.price then
    error_module.raise("model", "search: %s needs a price, and the cluster %s has none: give price_per_device_hour "
      .. "for all clusters, or a cluster file with price_per_gpu_hour", what, setting.cluster.name)
  end
  if value == "kwh" and not setting.idle_kw then
    error_module.raise("model", "search: %s needs the device's power, and %s has no field power_watts", what,
      setting.cluster.device.name)
  end
end

--- Lower bound of the mean step of devices that vary, as a multiple of the step of equal devices; nil: they are equal.
local function least_varied(p)
  if p.jitter == 0 and p.slow_share == 0 and not p.rank_slowdown then return nil end
  local least = 1.0
  for _, factor in ipairs(p.rank_slowdown or {}) do
    if type(factor) == "number" then least = math.min(least, factor) end -- a rule of the plan refuses other values
  end
  return (1 - 1e-6) * least
end

--- Fills a setting with values shared by its plans: tokens per step, steps, price, limits of the step, factors.
---@param given table { model, objectives = list of names, tokens?, budget?, days?, kwh?, headroom }
function objective.prepare(setting, given)
  local p, cluster = setting.plan, setting.cluster
  setting.tokens_per_step = (p.global_batch + 0.0) * p.seq
  setting.steps = given.tokens and cost.steps(given.tokens, setting.tokens_per_step)
  setting.price = cost.hourly(p, cluster)
  setting.memory_limit_bytes = cluster.device.memory_bytes * (1 - given.headroom)
  -- The busiest device writes at least an equal share of a checkpoint; the factor 0.9 allows for unequal shares. Frozen
  -- weights are not written.
  local written = (p.lora_rank or p.frozen_layers > 0) and 1 or 0.9 * architecture.parameters(given.model, p.seq)
  local best = goodput.of(p, cluster, setting.devices, written / setting.devices)
  setting.varies = least_varied(p) ~= nil
  setting.least_varied = least_varied(p) or 1.0
  setting.most_goodput = best and math.min(100, (1 + 1e-9) * best.goodput_percent)
  local power, node_watts, pue = energy.setting(p, cluster)
  if power then
    setting.pue, setting.idle_kw = pue, (power.idle_watts + node_watts) * pue * setting.devices / 1e3
  end
  setting.most_seconds = math.huge
  for name, value in pairs(objective.limits) do
    if given[name] then
      check(setting, value, ("the limit '%s'"):format(name), given)
      setting.most_seconds = math.min(setting.most_seconds, given[name] / objective.list[value].factor(setting))
    end
  end
  setting.factors = {}
  for i, name in ipairs(given.objectives) do
    check(setting, name, ("the objective '%s'"):format(name), given)
    local o = objective.get(name)
    setting.factors[i] = o.factor and o.factor(setting) or false
  end
end

--- Lower bound of a run's kWh above idle power.
---@param joules number energy.least_joules of the part's program
function objective.kwh_floor(part, joules)
  local s = part.setting
  return of_run(s, joules * part.micro_batches * part.tp * part.cp * part.dp * s.pue / 3.6e6) * (1 - 1e-9)
end

--- Adds derived values to a row: throughput, days, dollars, kWh, and the values for comparison (smaller is better).
--- Returns false if a limit is violated.
---@param estimate_of function(row) an estimate; called only for energy and for devices that vary
function objective.measure(row, setting, given, estimate_of)
  local tokens, step = setting.tokens_per_step, row.step_seconds
  local parameters = row.shard_parameters
  row.shard_parameters = nil
  row.tokens_per_second = tokens / step
  row.tokens_per_second_per_device = tokens / step / setting.devices
  local needed = setting.varies and (setting.price or given.tokens or setting.most_goodput)
  local mean = needed and estimate_of(row).varied_mean_seconds or step
  local useful = goodput.of(setting.plan, setting.cluster, setting.devices, parameters, mean, setting.steps)
  row.goodput_percent = useful and useful.goodput_percent
  local price
  if setting.price then
    price = cost.of_devices(setting.price, setting.devices, mean)
    row.dollars_per_billion_tokens = price / tokens * 1e9
  end
  if given.tokens then
    local seconds = cost.of_run(setting.steps, mean, row.goodput_percent)
    row.run_days = seconds and seconds / day
    row.run_dollars = price and cost.of_run(setting.steps, price, row.goodput_percent)
    if given.wants_energy then row.run_kwh = estimate_of(row).run_kwh end
  end
  local values = {}
  for i, name in ipairs(given.objectives) do
    local o = objective.list[name]
    if o.memory then
      values[i] = row.memory_bytes
    elseif o.constant then
      values[i] = o.constant(setting)
    else
      values[i] = o.run and row["run_" .. name] or not o.run and step * setting.factors[i]
      if not values[i] then return false end -- the run never ends
    end
  end
  row.values = values
  for name, value in pairs(objective.limits) do
    local own = row["run_" .. value]
    if given[name] and not (own and own <= given[name]) then return false end
  end
  return true
end

return objective

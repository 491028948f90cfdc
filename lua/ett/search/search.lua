--- Searches: the best plan of a model over layouts, devices and clusters, exactly.
--
--   local s = search.new { model = model, cluster = "dgx_h100", devices = 512, plan = { seq = 8192, global_batch = 1024 } }
--   s.rows[1].step_seconds, s.rows[1].tp
--
-- ett.search.space builds the space, ett.search.walk settles it, ett.search.keeper holds the best.
local error_module = require "ett.base.error"
local keeper_module = require "ett.search.keeper"
local objective = require "ett.search.objective"
local schema = require "ett.base.schema"
local space_module = require "ett.search.space"
local walk_module = require "ett.search.walk"

local search = {}
local Search = { __name = "ett.search" }
Search.__index = Search

local argument_fields = { model = "model", cluster = "any?", devices = "any?", plan = { "table", default = {} },
  vary = { "table", default = {} }, where = "any?", objective = { "any", default = "step_seconds" },
  tokens = { "positive", optional = true, most = 1 << 60 }, budget = "positive?", days = "positive?",
  headroom = { "nonnegative", default = 0, most = 0.99 }, keep = { "count", default = 100 },
  exhaustive = { "boolean", default = false }, profile = "profile?", times = "table?", progress = "function?" }

local function list_of(value)
  if type(value) == "table" and not value.path and not value.name and #value > 0 then return value end
  return { value }
end

--- The clusters and numbers of devices of a search, checked.
local function places(given)
  local clusters, devices, seen = {}, {}, {}
  if given.cluster == nil then error_module.raise("argument", "search: missing argument 'cluster'") end
  for _, value in ipairs(given.vary.cluster or list_of(given.cluster)) do
    local cluster = type(value) == "table" and value.path and value or require("ett.profile.cluster").get(value)
    if seen[cluster.name] then
      error_module.raise("argument", "search: cluster '%s' is given twice", cluster.name)
    end
    seen[cluster.name] = true
    clusters[#clusters + 1] = cluster
  end
  local wanted = given.vary.devices or given.devices and list_of(given.devices)
  if not wanted then error_module.raise("argument", "search: missing argument 'devices'") end
  for _, value in ipairs(wanted) do
    local n = math.tointeger(value)
    if not n or n < 1 or n > 1 << 24 then
      error_module.raise("argument", "search: 'devices' must be positive integers, got %s", schema.describe(value))
    end
    devices[#devices + 1] = n
  end
  return clusters, devices
end

--- The checked arguments.
local function checked(given)
  given = schema.check(given, argument_fields, "ett.search", "argument")
  local clusters, devices = places(given)
  local own = {}
  for name, value in pairs(given) do own[name] = value end
  own.clusters, own.devices = clusters, devices
  own.objectives = type(given.objective) == "table" and given.objective or { given.objective }
  for i, name in ipairs(own.objectives) do
    objective.get(name)
    for k = 1, i - 1 do
      if own.objectives[k] == name then error_module.raise("usage", "search: objective '%s' is given twice", name) end
    end
  end
  return own
end

--- Runs a search.
---@param given table { model, cluster = name, table or list of them, devices = number or list, plan = fixed fields,
---  vary = { field = list }, where?, objective = name or list (a Pareto front), tokens?, budget?, days?, headroom,
---  keep, exhaustive, profile?, times?, progress? = function(done, units, best) }
function search.new(given)
  local own = checked(given)
  local space = space_module.new(own)
  for _, setting in ipairs(space.settings) do objective.prepare(setting, own) end
  local keeper = keeper_module.new(own)
  local walk = walk_module.new(space, keeper, own)
  for i, unit in ipairs(space.units) do
    walk:unit(unit)
    if own.progress then own.progress(i, #space.units, keeper.rows[1]) end
  end
  walk:close()
  local rows = keeper.rows
  for _, row in ipairs(rows) do objective.describe(row, space.settings[row.setting], own) end
  return setmetatable({ model = own.model.name, objectives = own.objectives, rows = rows, plans = space.plans,
    cut = space.cut, first_rule = space.first_rule, effort = walk.counts, units = #space.units }, Search)
end

return setmetatable(search, { __call = function(_, given) return search.new(given) end })

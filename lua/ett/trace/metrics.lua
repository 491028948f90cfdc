--- Finds, checks and runs metric files: lua/ett/metrics/NAME.lua in every root (ett.base.find), or a file by its path.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local json = require "ett.json"
local schema = require "ett.base.schema"

local metrics = {}

local kind = "lua/ett/metrics"

local fields = {
  name = "string", summary = "string", definition = "string", needs = "string", units = "table",
  args = "list?", differs = "string?", options = "list?", compute = "function", table = "function?",
}

-- Raises if a list of a metric's description holds something else than names, or a unit is no text.
local function checked(metric, label)
  for _, field in ipairs { "args", "options" } do
    for i, name in ipairs(metric[field] or {}) do
      schema.check_value(name, "string", ("%s: field '%s': value %d"):format(label, field, i))
    end
  end
  for key, unit in pairs(metric.units) do
    schema.check_value(unit, "string", ("%s: units: the unit of '%s'"):format(label, tostring(key)))
  end
  return metric
end

function metrics.names() return find.names(kind) end

--- Whether a metric of that name exists, or a file of that path.
function metrics.exists(name)
  if name:find("%.lua$") then return require("lfs").attributes(name, "mode") == "file" end
  return find.path(kind, name) ~= nil
end

--- A metric's description, checked.
---@param name string its name, or the path of its file
function metrics.load(name)
  if not name:find("%.lua$") then
    local metric, _, label = find.described(kind, name, fields)
    return checked(metric, label)
  end
  local label = find.label(name)
  return checked(schema.check(find.load_file(name), fields, label), label)
end

--- Args that the named metrics read, each once, sorted.
function metrics.args(list)
  local set = {}
  for _, metric in ipairs(list) do
    for _, arg in ipairs(metric.args or {}) do set[arg] = true end
  end
  return schema.keys(set)
end

--- The descriptions of the named metrics, in the same order.
function metrics.load_all(names)
  local list = {}
  for i, name in ipairs(names) do list[i] = metrics.load(name) end
  return list
end

local most_levels = 32 -- of tables in tables; a table that holds itself has more

-- The result, if it is plain data.
local function plain(value, metric, key, level)
  local type_of = type(value)
  if type_of == "table" and level < most_levels then
    for k, v in pairs(value) do
      if type(k) ~= "string" and math.type(k) ~= "integer" then
        error_module.raise("model", "%s: 'compute' must return tables with names or integers as keys, got %s",
          schema.place(metric.compute), schema.describe(k))
      end
      plain(v, metric, k, level + 1)
    end
  elseif type_of == "number" and value - value ~= 0 then
    error_module.raise("model", "%s: 'compute' must return finite numbers, or null for an unknown one, got %s in "
      .. "field '%s'", schema.place(metric.compute), schema.describe(value), tostring(key))
  elseif type_of == "table" then
    error_module.raise("model", "%s: 'compute' must return at most %d levels of tables, field '%s' has more",
      schema.place(metric.compute), most_levels, tostring(key))
  elseif value ~= json.null and type_of ~= "number" and type_of ~= "string" and type_of ~= "boolean" then
    error_module.raise("model", "%s: 'compute' must return plain data, got a %s in field '%s'",
      schema.place(metric.compute), type_of, tostring(key))
  end
  return value
end

--- Computes one metric over a view. Returns its table, or nil and the reason why it has none.
---@return table? result, string? reason
function metrics.compute(metric, view)
  local ok, result = pcall(error_module.wrap, metric.name, metric.compute, view, view.options)
  if ok and type(result) == "table" then return plain(result, metric, metric.name, 0) end
  if ok then
    error_module.raise("model", "%s: 'compute' must return a table, got %s", schema.place(metric.compute),
      schema.describe(result))
  end
  if error_module.is(result) and result.kind == "missing" then return nil, result.message end
  error(result, 0)
end

return metrics

--- Schedules: found by file name, checked, and asked for the units of each pipeline stage.
--
-- A schedule file returns { name =, summary =, order = function(stage, plan) … end }; lua/schedules/README.md says
-- what `order` returns. A fault of a schedule names its file and the line of `order`.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local schema = require "ett.base.schema"

local schedules = {}

--- Schedules that the C core computes without reading their files.
schedules.built_in = { ["gpipe"] = true, ["1f1b"] = true, ["interleaved"] = true }

local folder = "lua/schedules"
local fields = { name = "string?", summary = "string?", chunks = "count?", order = "function" }

--- Names of every schedule found.
function schedules.names() return find.names(folder) end

--- Whether a schedule of that name exists.
function schedules.exists(name) return schedules.built_in[name] or find.path(folder, name) ~= nil end

--- Calls fn(...). What it raises is a fault of the schedule: `label` (nil: a built-in one) is put in front.
function schedules.call(label, fn, ...)
  if not label then return fn(...) end
  return error_module.wrap(label, fn, ...)
end

--- A schedule's description, checked, and its path.
local function load(name)
  local schedule, path = find.load(folder, name)
  local file = path:match("([^/]+)$")
  if type(schedule) ~= "table" then
    error_module.raise("model", "%s: a schedule file must return a table with the function 'order', got %s", file,
      schema.describe(schedule))
  end
  schema.check(schedule, fields, file)
  if schedule.name and schedule.name ~= name then
    error_module.raise("model", "%s: field 'name' must be '%s' as the file's, got '%s'", file, name, schedule.name)
  end
  return schedule, path
end

--- The most model chunks of a stage that a schedule can order; nil: any number.
function schedules.chunks(name)
  if schedules.built_in[name] then return name ~= "interleaved" and 1 or nil end
  return load(name).chunks
end

--- The units of every stage under a plan, as C reads them, and a label for faults; nil for a built-in schedule.
---@param p table a clean plan
---@return userdata? orders, string? label
function schedules.orders(p)
  if schedules.built_in[p.schedule] then return nil end
  local schedule, path = load(p.schedule)
  local order, label = schedule.order, schema.place(schedule.order, path)
  local stages = {}
  for stage = 1, p.pp do
    local ok, units = pcall(order, stage, p)
    if not ok then -- an error of Lua already names file and line
      local object = error_module.from(units)
      if object.kind == "internal" then object.kind = "model" end
      error(object, 0)
    end
    if type(units) ~= "table" then
      error_module.raise("model", "%s: stage %d: 'order' must return a list of units, got %s", label, stage,
        schema.describe(units))
    end
    stages[stage] = units
  end
  return schedules.call(label, require("ett.step").orders, stages), label
end

return schedules

--- Finds, checks and runs the metric files (lua/ett/metrics/NAME.lua in every root).
local error_module = require "ett.error"
local find = require "ett.find"
local schema = require "ett.schema"

local metrics = {}

local kind = "lua/ett/metrics"

local fields = {
  name = "string", summary = "string", definition = "string", needs = "string", units = "table",
  args = "list?", differs = "string?", options = "list?", compute = "function", table = "function?",
}

--- Names of all metrics, sorted.
function metrics.names() return find.names(kind) end

--- A metric's description, checked.
---@param name string
function metrics.load(name)
  local metric, path = find.load(kind, name)
  return schema.check(metric, fields, path:match("([^/]+)$"))
end

--- Args that the named metrics read, each once, sorted.
function metrics.args(list)
  local set, names = {}, {}
  for _, metric in ipairs(list) do
    for _, arg in ipairs(metric.args or {}) do
      if not set[arg] then
        set[arg] = true
        names[#names + 1] = arg
      end
    end
  end
  table.sort(names)
  return names
end

--- Options that metrics read (`options` of their files), checked by the command line.
function metrics.load_all(names)
  local list = {}
  for i, name in ipairs(names) do list[i] = metrics.load(name) end
  return list
end

--- Computes one metric over a view: its table, or nil and the reason it has none.
---@return table? result, string? reason
function metrics.compute(metric, view)
  local ok, result = pcall(error_module.wrap, metric.name, metric.compute, view, view.options)
  if ok then return result end
  if error_module.is(result) and result.kind == "missing" then return nil, result.message end
  error(result, 0)
end

return metrics

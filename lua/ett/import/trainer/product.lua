--- The product of a trainer's degrees.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

--- Raises `format` if Lua's integers could wrap: then no product of some of the values is exact.
---@param values table<string, integer> by name in the trainer's file, all of at least 1
return function(values)
  local exact, list = 1.0, {}
  for _, name in ipairs(schema.keys(values)) do
    exact = exact * values[name]
    if values[name] > 1 then list[#list + 1] = ("%s = %s"):format(name, values[name]) end
  end
  if exact >= 2 ^ 53 then
    error_module.raise("format", "%s: their product must be below 2^53, got %.3g", table.concat(list, ", "), exact)
  end
end

--- What the value of a trainer's field means in a plan.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

--- Raises `format` if no name matches, with the nearest.
---@param field string name in the trainer's file
---@param names table by lower-case value: its meaning
---@param value any as the file has it
return function(field, names, value)
  local meaning = names[tostring(value):lower()]
  if not meaning then
    error_module.raise("format", "%s: %s", field, error_module.unknown("value", tostring(value), schema.keys(names)))
  end
  return meaning
end

--- Reads the fields of a trainer's document.
local error_module = require "ett.base.error"
local json = require "ett.json"
local schema = require "ett.base.schema"

--- Reads fields of a document, all of the kind of their default (nil: a number), or of another kind if one is given.
--- Numbers are above 0 if their default is. null and "auto" count as absent; the second result is true for "auto", the
--- third for an absent field.
return function(document, seen)
  return function(section, name, default, other)
    local from, kind = document[section] or {}, type(default == nil and 1 or default)
    if from == json.null then from = {} end
    if section == "" and not document[""] then from = document end
    if type(from) ~= "table" then
      error_module.raise("format", "'%s' must hold fields with names, got %s", section, schema.describe(from))
    end
    seen[section .. "." .. name] = true
    local value = from[name]
    if value == nil or value == json.null or value == "auto" then return default, value == "auto", value ~= "auto" end
    local where = section == "" and name or section .. "." .. name
    if type(value) ~= kind and type(value) ~= other then
      local allowed = kind == "boolean" and "true or false" or "a " .. kind
      error_module.raise("format", "%s must be %s, got %s", where, allowed, schema.describe(value))
    end
    if kind == "number" and (default or 1) > 0 and value <= 0 then
      error_module.raise("format", "%s must be above 0, got %s", where, schema.describe(value))
    end
    return math.type(value) == "float" and math.tointeger(value) or value
  end
end

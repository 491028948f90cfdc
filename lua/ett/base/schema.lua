--- Checks tables of named fields: unknown, missing and wrong-kind each get a sentence.
--
--   local spec = { hidden = "count", tp = { "degree", default = 1 }, gated = "boolean?" }
--   local clean = schema.check(given, spec, "plan")
--
-- A field is a kind, a kind with "?" (optional), or { kind, default=, optional=, one_of=, least=, most= }.
local error_module = require "ett.base.error"

local schema = {}

local function is_integer(value) return math.type(value) == "integer" or
  (math.type(value) == "float" and value == math.floor(value) and math.abs(value) < 2 ^ 53) end

local function describe(value)
  if type(value) == "string" then return ("'%s'"):format(#value > 60 and value:sub(1, 57) .. "..." or value) end
  if type(value) == "table" then return "a table" end
  if tostring(value):match("^%a+: 0x") or type(value) == "function" then return "a " .. type(value) end
  if value ~= value then return "NaN" end
  if type(value) == "number" and math.type(value) == "float" and value == math.floor(value)
    and math.abs(value) < 2 ^ 53 then return ("%d"):format(value) end
  return tostring(value)
end

--- kind -> { sentence, test, [convert] }. Counts and degrees come back as Lua integers.
local function to_integer(value) return math.tointeger(value) or math.floor(value) end
local kinds = {
  count = { "a positive integer", function(v) return is_integer(v) and v > 0 end, to_integer },
  degree = { "a positive integer", function(v) return is_integer(v) and v > 0 end, to_integer },
  integer = { "an integer", is_integer, to_integer },
  natural = { "an integer of at least 0", function(v) return is_integer(v) and v >= 0 end, to_integer },
  number = { "a finite number", function(v)
    return type(v) == "number" and v == v and v ~= math.huge and v ~= -math.huge end },
  positive = { "a positive number", function(v)
    return type(v) == "number" and v > 0 and v < math.huge end },
  nonnegative = { "a number of at least 0", function(v)
    return type(v) == "number" and v >= 0 and v < math.huge end },
  fraction = { "a number from 0 to 1", function(v) return type(v) == "number" and v >= 0 and v <= 1 end },
  boolean = { "true or false", function(v) return type(v) == "boolean" end },
  string = { "a string", function(v) return type(v) == "string" end },
  table = { "a table", function(v) return type(v) == "table" end },
  list = { "a list", function(v) return type(v) == "table" and (next(v) == nil or v[1] ~= nil) end },
  ["function"] = { "a function", function(v) return type(v) == "function" end },
  any = { "any value", function(v) return v ~= nil end },
}
local dtypes = { fp16 = 2, bf16 = 2, fp32 = 4, tf32 = 4, fp8 = 1, fp64 = 8, int8 = 1 }
local training_dtypes = { bf16 = true, fp16 = true, fp32 = true, fp64 = true, fp8 = true, tf32 = true }
kinds.training_dtype = { "one of bf16, fp16, fp32, fp64, fp8, tf32 (int8 does not train)",
  function(v) return training_dtypes[v] ~= nil end }
kinds.dtype = { "one of bf16, fp16, fp32, fp64, fp8, int8, tf32", function(v) return dtypes[v] ~= nil end }

-- What functions of the library take from each other.
kinds.model = { "a model of ett.model.new, .list or .huggingface",
  function(v) return type(v) == "table" and type(v.layers) == "table" and type(v.hyper) == "table" end }
kinds.cluster = { "a cluster's name, file or table, see `ett list clusters`",
  function(v) return type(v) == "string" or type(v) == "table" end }
kinds.profile = { "a profile (ett.profile.of_cluster.open, ett.profile.open), or false for the device's rates alone",
  function(v) return v == false or type(v) == "table" and v.operator ~= nil and v.collective ~= nil end }

--- Bytes of one element of a dtype.
schema.dtype_bytes = dtypes

--- Adds a kind: schema.kind("ratio", "a ratio from 0 to 1", function(v) … end).
function schema.kind(name, sentence, test, convert) kinds[name] = { sentence, test, convert } end

--- Checks one argument of a function by its kind (or kind with "?"), and returns it as the kind has it:
--- schema.argument(path, "string", "ett.model.huggingface", "path") raises "ett.model.huggingface:
--- argument 'path' must be a string, got nil".
function schema.argument(value, kind, where, name)
  local optional = kind:sub(-1) == "?"
  local check = kinds[optional and kind:sub(1, -2) or kind]
  if value == nil and optional then return nil end
  if not check[2](value) then
    error_module.raise("argument", "%s: argument '%s' must be %s, got %s", where, name, check[1], describe(value))
  end
  return check[3] and check[3](value) or value
end

--- A value as messages show it: strings quoted, long ones cut.
schema.describe = describe

--- What keeps a table from being a list, as a sentence: a name in it, or an entry that is nil. Such entries would be
--- passed over in silence.
function schema.list_fault(list)
  local last, count = 0, 0
  for key in pairs(list) do
    if math.type(key) ~= "integer" or key < 1 then
      return ("a list has no place for %s"):format(describe(key))
    end
    last, count = math.max(last, key), count + 1
  end
  if count == last then return nil end
  local hole = 1
  while list[hole] ~= nil do hole = hole + 1 end
  return ("value %d is nil"):format(hole)
end

local function rule_of(rule)
  if type(rule) == "string" then
    if rule:sub(-1) == "?" then return rule:sub(1, -2), true end
    return rule, false
  end
  return rule[1], rule.optional or rule.default ~= nil, rule.default, rule.one_of
end

--- Whether a field of that rule may be left out.
function schema.optional(rule) return (select(2, rule_of(rule))) end

--- Sorted keys of a table, as strings.
function schema.keys(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = tostring(name) end
  table.sort(names)
  return names
end

--- Every violation in `given` against `spec`: a list of sentences, and the clean copy.
function schema.violations(given, spec)
  local found, clean = {}, {}
  if type(given) ~= "table" then
    return { ("must be a table of named fields, got %s"):format(describe(given)) }, clean
  end
  local names = schema.keys(spec)
  for _, name in ipairs(schema.keys(given)) do
    if spec[name] == nil then
      found[#found + 1] = ("unknown field '%s'%s"):format(name, error_module.suggestion(name, names))
    end
  end
  for _, name in ipairs(names) do
    if type(spec[name]) ~= "string" and type(spec[name]) ~= "table" then
      error_module.raise("argument", "the rule of field '%s' must be a kind such as 'count', or { kind, default = … }, "
        .. "got %s", name, describe(spec[name]))
    end
    local kind, optional, default, one_of = rule_of(spec[name])
    local check = kinds[kind]
    if not check then
      error_module.raise("argument", "unknown kind '%s' of field '%s'%s; known are %s", tostring(kind), name,
        error_module.suggestion(tostring(kind), schema.keys(kinds)), table.concat(schema.keys(kinds), ", "))
    end
    local value = given[name]
    if value == nil then
      if not optional then
        found[#found + 1] = ("missing field '%s' (%s)"):format(name, check[1])
      end
      clean[name] = default
    elseif not check[2](value) then
      found[#found + 1] = ("field '%s' must be %s, got %s"):format(name, check[1], describe(value))
    else
      if one_of then
        local known = false
        for _, choice in ipairs(one_of) do known = known or choice == value end
        if not known then
          local words = {}
          for i, choice in ipairs(one_of) do words[i] = tostring(choice) end
          found[#found + 1] = ("field '%s' must be one of %s, got %s%s"):format(name,
            table.concat(words, ", "), describe(value), error_module.suggestion(value, words))
        end
      end
      local least = type(spec[name]) == "table" and spec[name].least
      if least and value < least then
        found[#found + 1] = ("field '%s' must be at least %s, got %s"):format(name, describe(least), describe(value))
      end
      local most = type(spec[name]) == "table" and spec[name].most
      if most and value > most then
        found[#found + 1] = ("field '%s' must be at most %s, got %s"):format(name, describe(most), describe(value))
      end
      clean[name] = check[3] and check[3](value) or value
    end
  end
  return found, clean
end

--- Returns a clean copy (defaults filled in, integral floats made integers) or raises an
--- error object that lists every violation.
function schema.check(given, spec, label, kind)
  local found, clean = schema.violations(given, spec)
  if #found > 0 then
    local object = error_module.new(kind or "model", "%s", table.concat(found, "; "))
    object.violations = found
    if label then error_module.label(object, label) end
    error(object, 0)
  end
  return clean
end

return schema

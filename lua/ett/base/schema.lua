--- Checks tables of named fields. Reports each unknown, missing and wrong field.
--
--   local spec = { hidden = "count", tp = { "degree", default = 1 }, gated = "boolean?" }
--   local clean = schema.check(given, spec, "plan")
--
-- README.md lists the kinds and the fields of a rule.
local are_counts = require("ett.host").are_counts
local error_module = require "ett.base.error"

local schema = {}

local math_type, type = math.type, type

local function is_integer(value)
  return math.type(value) == "integer"
    or (math.type(value) == "float" and value == math.floor(value) and math.abs(value) < 2 ^ 53)
end
local function to_integer(value) return math.tointeger(value) or math.floor(value) end
local function is_finite(value) return type(value) == "number" and value - value == 0 end
local function of_type(name) return function(value) return type(value) == name end end

--- A value as text for messages: strings quoted, long ones cut.
function schema.describe(value)
  if type(value) == "string" then return ("'%s'"):format(#value > 60 and value:sub(1, 57) .. "..." or value) end
  if type(value) == "table" then return rawget(value, 1) ~= nil and "a list" or "a table" end
  if tostring(value):match "^%a+: 0x" then return "a " .. type(value) end
  if value ~= value then return "NaN" end
  if type(value) == "number" and is_integer(value) then return ("%d"):format(value) end
  return tostring(value)
end
local describe = schema.describe

--- Bytes of one element of a dtype.
schema.dtype_bytes = { fp16 = 2, bf16 = 2, fp32 = 4, tf32 = 4, fp8 = 1, fp64 = 8, int8 = 1, fp8_block = 1,
  mxfp8 = 1 + 1 / 32, mxfp4 = 0.5 + 1 / 32, nvfp4 = 0.5 + 1 / 16 } -- blocks of 32 or 16 elements share one scale
local dtype_bytes = schema.dtype_bytes
-- Other names of types, for messages.
local also_called = { bfloat16 = "bf16", float16 = "fp16", half = "fp16", float32 = "fp32", float8 = "fp8",
  fp4 = "nvfp4" }

--- The data type of tensors that software keeps in 16 bits if `dtype` has fewer.
function schema.wide(dtype) return dtype_bytes[dtype] < 2 and "bf16" or dtype end

--- Bytes of its elements.
function schema.wide_bytes(dtype)
  local bytes = dtype_bytes[dtype]
  return bytes < 2 and 2 or bytes
end

local function is_count(value) return is_integer(value) and value > 0 end

--- kind -> { description, test, conversion }. Counts and degrees become Lua integers.
local kinds = {
  count = { "a positive integer", is_count, to_integer }, degree = { "a positive integer", is_count, to_integer },
  integer = { "an integer", is_integer, to_integer },
  natural = { "an integer of at least 0", function(v) return is_integer(v) and v >= 0 end, to_integer },
  number = { "a finite number", is_finite },
  positive = { "a positive number", function(v) return is_finite(v) and v > 0 end },
  nonnegative = { "a number of at least 0", function(v) return is_finite(v) and v >= 0 end },
  fraction = { "a number from 0 to 1", function(v) return is_finite(v) and v >= 0 and v <= 1 end },
  boolean = { "true or false", of_type "boolean" }, string = { "a string", of_type "string" },
  table = { "a table", of_type "table" }, ["function"] = { "a function", of_type "function" },
  text_or_table = { "a string or a table", function(v) return type(v) == "string" or type(v) == "table" end },
  list = { "a list", function(v) return type(v) == "table" and (next(v) == nil or v[1] ~= nil) end },
  any = { "any value", function(v) return v ~= nil end },
  dtype = { "one of bf16, fp16, fp32, fp64, fp8, fp8_block, int8, mxfp4, mxfp8, nvfp4, tf32",
    function(v) return dtype_bytes[v] ~= nil end },
  training_dtype = { "one of bf16, fp16, fp32, fp64, fp8, fp8_block, mxfp4, mxfp8, nvfp4, tf32 (not int8)",
    function(v) return v ~= "int8" and dtype_bytes[v] ~= nil end },
  model = { "a model of ett.model.new, .list or .huggingface",
    function(v) return type(v) == "table" and type(v.layers) == "table" and type(v.hyper) == "table" end },
  cluster = { "a cluster's name, file or table, see `ett list clusters`",
    function(v) return type(v) == "string" or type(v) == "table" end },
  profile = { "a profile (ett.profile.of_cluster.open, ett.profile.open), or false for the device's rates alone",
    function(v) return v == false or type(v) == "table" and v.operator ~= nil and v.collective ~= nil end },
}

-- Describes an argument that cannot be read: no table, or the library, as in ett:estimate { … }. Else nil.
local function got(value)
  if type(value) ~= "table" then return describe(value) end
  return value == package.loaded.ett and "the module ett; write ett.NAME with a dot, not with a colon" or nil
end

local function converted(kind, value) return kind[3] and kind[3](value) or value end

--- Checks one argument of a function by its kind (optional with "?") and returns it. schema.argument(nil, "string",
--- "ett.model.huggingface", "path") raises "ett.model.huggingface: argument 'path' must be a string, got nil".
function schema.argument(value, kind, where, name)
  local optional = kind:sub(-1) == "?"
  local check = kinds[optional and kind:sub(1, -2) or kind]
  if value == nil and optional then return nil end
  if not check[2](value) or value == package.loaded.ett then
    error_module.raise("argument", "%s: argument '%s' must be %s, got %s", where, name, check[1],
      got(value) or describe(value))
  end
  return converted(check, value)
end

--- Why a table is not a list: a named field, or a nil entry. Returns nil for a list.
function schema.list_fault(list)
  local last, count = 0, 0
  for key in pairs(list) do
    if math.type(key) ~= "integer" or key < 1 then return ("a list cannot have the field %s"):format(describe(key)) end
    last, count = math.max(last, key), count + 1
  end
  if count == last then return nil end
  local hole = 1
  while list[hole] ~= nil do hole = hole + 1 end
  return ("value %d is nil"):format(hole)
end

local rule_fields = { optional = true, default = true, least = true, most = true, one_of = true, fields = true,
  help = true, also = true, unit = true }

-- The long form of rules that are texts. `test`: of a kind whose values are taken unchanged; `whole`: a kind of
-- integers.
local rules_of_text = {}

--- A rule in its long form; raises for an invalid rule.
local function rule_of(rule, name)
  if rules_of_text[rule] then return rules_of_text[rule] end
  local text = type(rule) == "string" and rule
  if text then
    local optional = text:sub(-1) == "?"
    rule = { optional and text:sub(1, -2) or text, optional = optional }
  elseif type(rule) ~= "table" then
    error_module.raise("argument", "the rule of field '%s' must be a kind such as 'count', or { kind, default = … }, "
      .. "got %s", name, describe(rule))
  end
  if not kinds[rule[1]] then
    local known = schema.keys(kinds)
    error_module.raise("argument", "unknown kind '%s' of field '%s'%s; known are %s", tostring(rule[1]), name,
      error_module.suggestion(tostring(rule[1]), known), table.concat(known, ", "))
  end
  if text then
    local kind = kinds[rule[1]]
    rule.test, rule.whole = not kind[3] and kind[2], kind[3] ~= nil
    rules_of_text[text] = rule
    return rule
  end
  for field in next, rule do
    if field ~= 1 and not rule_fields[field] then
      error_module.raise("argument", "the rule of field '%s': unknown field '%s'%s", name, tostring(field),
        error_module.suggestion(tostring(field), schema.keys(rule_fields)))
    end
  end
  return rule
end

--- Sorted keys of a table, as strings.
function schema.keys(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = tostring(name) end
  table.sort(names)
  return names
end

local function sentence_of(rule)
  return rule.one_of and "one of " .. table.concat(rule.one_of, ", ") or kinds[rule[1]][1]
end

--- Description of the valid values of a rule: "a positive integer".
function schema.sentence(rule) return sentence_of(rule_of(rule, "?")) end

function schema.optional(rule)
  rule = rule_of(rule, "?")
  return rule.optional or rule.default ~= nil
end

local function contains(list, value)
  for i = 1, #list do if list[i] == value then return true end end
  return false
end

--- The error of a value with the right type: not among the choices, too small, too large.
local function limit_fault(value, rule)
  if rule.one_of and not contains(rule.one_of, value) then
    local words = {}
    for i, choice in ipairs(rule.one_of) do words[i] = tostring(choice) end
    return ("one of %s, got %s%s"):format(table.concat(words, ", "), describe(value),
      error_module.suggestion(value, words))
  end
  local bound = rule.least and value < rule.least and "least" or rule.most and value > rule.most and "most"
  return bound and ("at %s %s%s, got %s"):format(bound, describe(rule[bound]), rule.unit and " " .. rule.unit or "",
    describe(value))
end

-- Of a spec: the rules in long form by name, the names of integer fields, and the names of fields that are required or
-- have a default. Specs must not change after their first use.
local prepared = setmetatable({}, { __mode = "k" })

local function long_form(spec)
  local rules, whole, needed = {}, {}, {}
  for name, given in next, spec do
    local rule = rules_of_text[given] or rule_of(given, name)
    rules[name], whole[name] = rule, rule.whole
    if not rule.optional or rule.default ~= nil then needed[#needed + 1] = name end
  end
  assert(#spec == 0) -- fields have names
  return { rules = rules, whole = whole, needed = needed }
end

local function prepare(spec)
  local known = prepared[spec]
  if known then return known end
  local sound
  sound, known = pcall(long_form, spec)
  if not sound then -- of several faults, the first by name is raised
    for name, rule in next, spec do
      if type(name) ~= "string" then
        error_module.raise("argument", "rules are named fields, NAME = KIND, got %s without a name", describe(rule))
      end
    end
    for _, name in ipairs(schema.keys(spec)) do rule_of(spec[name], name) end
    error(known, 0)
  end
  prepared[spec] = known
  return known
end

--- Raises for an invalid rule: schema.check_rules(op.schema).
function schema.check_rules(spec) prepare(spec) end

--- A field's name in the spelling of `also`: "tensor-model-parallel-size" -> "tensor_parallel".
local function foreign(name)
  return (tostring(name):lower():gsub("-", "_"):gsub("_model_parallel", "_parallel"):gsub("_size$", "")
    :gsub("_degree$", ""))
end

--- The field of a spec that has this name in other software (`also` of its rule), or nil; with a value ("zero=3") if
--- the name stands for one.
function schema.meant(name, spec)
  local text = foreign(name)
  for _, known in ipairs(schema.keys(spec)) do
    local also = type(spec[known]) == "table" and spec[known].also or ""
    if known == text then return known end
    for other, value in also:gmatch "([^%s=]+)(=?%S*)" do
      if other == text then return known .. value end
    end
  end
end

--- Text for the end of a message on an unknown field: "; did you mean 'seq'?" or "".
---@param ... table<string, any> the specs whose fields may be meant
function schema.suggestion(name, ...)
  local names = {}
  for _, spec in ipairs { ... } do
    local other = also_called[name]
    local known = other and spec[other] and other or schema.meant(name, spec)
    if known then return ("; did you mean '%s'?"):format(known) end
    for _, own in ipairs(schema.keys(spec)) do
      local inner = type(spec[own]) == "table" and spec[own].fields
      if inner and inner[name] then return ("; did you mean '%s.%s'?"):format(own, name) end
      names[#names + 1] = own
    end
  end
  return error_module.suggestion(name, names)
end

-- Sorted names in `given` that are not in `spec`; nil if there are none.
local function unknown_names(given, spec)
  local names
  for name in next, given do
    if spec[name] == nil then
      names = names or {}
      names[#names + 1] = tostring(name)
    end
  end
  if names then table.sort(names) end
  return names
end

--- Raises if a value breaks a rule: schema.check_value(-1, "count", "mine.lua: field 'hidden'") raises
--- "mine.lua: field 'hidden' must be a positive integer, got -1".
function schema.check_value(value, rule, where)
  rule = rule_of(rule, where)
  local kind = kinds[rule[1]]
  local fault = not kind[2](value) and ("%s, got %s"):format(kind[1], describe(value)) or limit_fault(value, rule)
  if fault then error_module.raise("model", "%s must be %s", where, fault) end
end

-- Adds the errors of a value with the right type to the list, and returns the converted value.
local function clean_of(value, rule, check, name, found)
  local fault = limit_fault(value, rule)
  if fault then found[#found + 1] = ("field '%s' must be %s"):format(name, fault) end
  if rule.fields and type(value) == "table" then
    local inner
    inner, value = schema.violations(value, rule.fields)
    for _, sentence in ipairs(inner) do found[#found + 1] = ("%s: %s"):format(name, sentence) end
  end
  return converted(check, value)
end

-- The table itself, or `copy` with its fields and the defaults, if every value passes unchanged; else nil. It does not
-- visit rules of absent fields, of which most specs have many.
local function unchanged(given, known, copy)
  local rules, whole = known.rules, known.whole
  for name, value in next, given do
    if not (whole[name] and math_type(value) == "integer" and value > 0) then
      local rule = rules[name]
      if not rule then return nil end
      local test = rule.test
      local kind = not (test or rule.fields) and kinds[rule[1]]
      if test then
        if not test(value) then return nil end
      elseif not kind or not kind[2](value) or kind[3] and math_type(value) ~= "integer"
        or limit_fault(value, rule) then
        return nil
      end
    end
    if copy then copy[name] = value end
  end
  for i = 1, #known.needed do
    local name = known.needed[i]
    if given[name] == nil then
      local default = rules[name].default
      if default == nil or not copy then return nil end
      copy[name] = default
    end
  end
  return copy or given
end

--- All violations of `spec` in `given` as a list of messages, and the clean copy.
function schema.violations(given, spec)
  local other = got(given)
  if other then return { "must be a table of named fields, got " .. other }, {} end
  local known = prepare(spec)
  local clean = unchanged(given, known, {})
  if clean then return {}, clean end
  local found = {}
  clean = {}
  for _, name in ipairs(unknown_names(given, spec) or {}) do
    found[#found + 1] = ("unknown field '%s'%s"):format(name, schema.suggestion(name, spec))
  end
  for _, name in ipairs(schema.keys(spec)) do
    local value, rule = given[name], known.rules[name]
    local check = kinds[rule[1]]
    if value == nil then
      clean[name] = rule.default
      if rule.default == nil and not rule.optional then
        found[#found + 1] = ("missing field '%s' (%s)"):format(name, check[1])
      end
    elseif check[2](value) then
      clean[name] = clean_of(value, rule, check, name, found)
    else
      local near = rule[1]:find "dtype$" and type(value) == "string" and not dtype_bytes[value]
        and error_module.suggestion(also_called[value] or value, schema.keys(dtype_bytes)) or ""
      found[#found + 1] = ("field '%s' must be %s, got %s%s"):format(name, sentence_of(rule), describe(value), near)
    end
  end
  return found, clean
end

--- Returns a clean copy (defaults filled, integral floats converted to integers), or raises one error object with all
--- violations.
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

--- schema.check for repeated use. A table that passes unchanged is returned without a copy.
---@return function function(given): given or a clean copy
function schema.checker(spec, label)
  local known
  return function(given)
    known = known or prepare(spec)
    if type(given) == "table" and (are_counts(given, known.whole, known.needed) or unchanged(given, known)) then
      return given
    end
    return schema.check(given, spec, label)
  end
end

--- Position of a function in a user's file: "mine.lua:8"; the file alone if the function is defined elsewhere.
function schema.place(fn, path)
  local facts = debug.getinfo(fn, "S")
  local source = facts.source:match "^@(.*)$"
  local name = path or source or "?"
  name = name:match "^.*/(.*)$" or name
  return (path == nil or source == path) and facts.linedefined > 0 and ("%s:%d"):format(name, facts.linedefined) or name
end

-- Far above any count of FLOPs or bytes; sums of larger numbers could become infinite.
local most_returned = 1e36

--- Wraps a user's function of up to four arguments to check its return value. schema.returning(op.flops, "nonnegative",
--- "operator 'relu': flops", path) raises "relu.lua:8: operator 'relu': flops must return a number of at least 0, got
--- NaN".
function schema.returning(fn, kind, who, path)
  local check = kinds[kind]
  local function checked(value)
    if not check[2](value) then
      error_module.raise("model", "%s: %s must return %s, got %s", schema.place(fn, path), who, check[1],
        describe(value))
    elseif type(value) == "number" and value > most_returned then
      error_module.raise("model", "%s: %s must return at most %g, got %g", schema.place(fn, path), who, most_returned,
        value)
    end
    return converted(check, value)
  end
  if kind == "table" then return function(a, b, c, d) return checked(fn(a, b, c, d)) end end
  local usual = kind == "natural" and "integer" or kind == "nonnegative" and "float" -- of most values
  return function(a, b, c, d)
    local value = fn(a, b, c, d)
    if math_type(value) == usual and value >= 0 and value <= most_returned then return value end
    return checked(value)
  end
end

return schema

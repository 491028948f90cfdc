--- Words NAME=VALUE of a command line as fields of a plan and hyper-parameters of a model.
local error_module = require "ett.base.error"
local model_module = require "ett.model"
local options = require "ett.base.options"
local schema = require "ett.base.schema"
local tables = require "ett.report.table"

local fields = {}

--- The cluster of predict, sweep, search and compare without --cluster.
fields.default_cluster = "dgx_h100"

--- Rules of the hyper-parameters that words may set.
local function hyper_fields(source)
  if type(source) == "table" then return source end
  return source and model_module.fields(source) or {}
end

local several_clusters = "%s; for several, `ett search … --vary cluster=%s --each`"

local counts = { devices = true, gpus = true, num_gpus = true, world_size = true } -- of the devices of a plan

-- Text that a message adds for an unknown field.
local function hint(command, name, text, source, plan_rules, hyper_rules)
  if name == "cluster" and text:find(",", 1, true) then return several_clusters:format("", text) end
  local option = options.named(counts[name] and "devices" or name)
  if option then return ("; did you mean '%s'?"):format(option) end
  if counts[name] then return "; a plan has pp x tp x cp x dp devices" end
  local near = schema.suggestion(name, plan_rules, hyper_rules)
  return near ~= "" and near
    or ("; `ett %s --help%s` lists them"):format(command, type(source) == "string" and " " .. source or "")
end

--- Splits texts by name into plan fields and hyper-parameters.
---@param command string for messages
---@param texts table<string, string>
---@param source string|table? name of an architecture or preset, a Hugging Face config.json, or rules
---@return table<string, string> plan, table<string, string> hyper
function fields.sort(command, texts, source)
  local plan_rules, hyper_rules = require("ett.plan").schema, hyper_fields(source)
  local plan, hyper = {}, {}
  for _, name in ipairs(schema.keys(texts)) do
    local into = plan_rules[name] and plan or hyper_rules[name] and hyper
    if not into then
      error_module.raise("usage", "%s: unknown field '%s'%s", command, name,
        hint(command, name, texts[name], source, plan_rules, hyper_rules))
    end
    into[name] = texts[name]
  end
  return plan, hyper
end

--- The fields of a plan as words to complete.
function fields.offers()
  local names = {}
  for i, name in ipairs(schema.keys(require("ett.plan").schema)) do names[i] = name .. "=" end
  return names
end

--- A hint of commands that read no launch scripts.
fields.flags_hint = { ["megatron-args"] = "`ett predict` and `ett search` read launch scripts" }

--- `hints` of a command (ett.base.options): its own, and for options that are fields of the plan or the model.
---@param own table<string, string>?
function fields.hints(own)
  return setmetatable(own or {}, { __index = function(_, option)
    local name = option and (schema.meant(option, require("ett.plan").schema)
      or schema.meant(option, require("ett.model.hyper").fields))
    return name and ("fields have no dashes: %s"):format(name:find "=" and name or name .. "=VALUE")
  end })
end

-- The kind of a field's values, such as "count".
local function kind_of(name)
  local rule = require("ett.plan").schema[name] or require("ett.model.hyper").fields[name]
  return type(rule) == "table" and rule[1] or rule and rule:gsub("%?$", "") or nil
end

local function is_list(name) return kind_of(name) == "list" end

local numeric = { count = true, degree = true, integer = true, natural = true, number = true, positive = true,
  nonnegative = true, fraction = true }

-- The value of a text. Raises if it is a number with an unknown suffix, or 1-4, in a field of numbers.
local function value_of(name, text)
  local value, kind = options.value(text), kind_of(name)
  local known = numeric[kind] and type(value) == "string" and options.suffix_hint(text) or ""
  if numeric[kind] and text:find "^%d+%-%d+$" then known = "; a range is " .. text:gsub("%-", "..") end
  if known ~= "" then
    error_module.raise("usage", "field '%s' must be %s, got '%s'%s", name, schema.sentence(kind), text, known)
  end
  return value
end

--- The values of a text that commas separate.
function fields.items(text)
  local list = {}
  for item in (text .. ","):gmatch("(.-),") do list[#list + 1] = options.value(item) end
  return list
end

--- Converts a text to the value of a field. Lists are split at commas; other fields have one value. The path of a file
--- may contain commas.
function fields.value(name, text)
  if is_list(name) then return fields.items(text) end
  if text:find ",." and not text:find("/", 1, true) or text:find "^%d+%.%.%d" then
    error_module.raise("usage", "%s=%s has several values: `ett sweep` evaluates each of them, `ett search` finds the "
      .. "best", name, text)
  end
  return value_of(name, text)
end

local most_values = 10000

--- The integers of "1..64" (doubling) or "8..64..8" (steps of 8).
local function range(command, name, text, low, rest)
  local high, step = rest:match "^(%d+)%.%.(%d+)$"
  local doubles = not high
  low, high, step = options.number(low), options.number(high or rest), options.number(step or "1")
  if math.type(step) ~= "integer" or math.type(high) ~= "integer" or high > 1 << 53
    or low < 1 or low > high or step < 1 then
    error_module.raise("usage",
      "%s: %s=%s must be LOW..HIGH or LOW..HIGH..STEP in whole numbers, with 1 <= LOW <= HIGH", command, name, text)
  end
  local list = {}
  while low <= high do
    if #list == most_values then
      error_module.raise("usage", "%s: %s=%s has more than %d values", command, name, text, most_values)
    end
    list[#list + 1] = low
    low = doubles and 2 * low or low + step
  end
  return list
end

--- Converts "1,2,4", "1..8" (doubling) or "8..64..8" (steps) to a list of values. A field that is a list has one value.
function fields.list(command, name, text)
  if is_list(name) then return { fields.value(name, text) } end
  local low, rest = text:match "^(%d+)%.%.(%d[%d.]*)$"
  if low then return range(command, name, text, low, rest) end
  local seen, list = {}, {}
  for item in (text .. ","):gmatch("(.-),") do list[#list + 1] = value_of(name, item) end
  for _, value in ipairs(list) do
    if seen[value] then
      error_module.raise("usage", "%s: %s=%s has the value %s twice", command, name, text, tostring(value))
    end
    seen[value] = true
  end
  return list
end

function fields.values(texts)
  local values = {}
  for name, text in pairs(texts) do values[name] = fields.value(name, text) end
  return values
end

--- The model of that name with hyper-parameters (values, not texts), or of a Hugging Face config.json.
function fields.model_of(source, hyper)
  local make = model_module.is_file(source) and model_module.huggingface or model_module.new
  return make(source, hyper)
end

--- fields.model_of with the texts of hyper-parameters.
function fields.model(source, hyper) return fields.model_of(source, fields.values(hyper)) end

--- Text that a message about a missing --model adds: the first word, if it is no field, may be the model.
function fields.model_hint(command, words)
  local word = words[1]
  if not word or word:find("=", 1, true) then return ("; see `ett %s --help`"):format(command) end
  return error_module.message("; did you mean '--model %s'?", word)
end

--- The plan fields and the hyper-parameters of words, as texts, for the model of --model.
---@param command string for messages
function fields.sorted(command, opts, words)
  if not opts.model then
    error_module.raise("usage", "%s: needs --model NAME or config.json%s", command, fields.model_hint(command, words))
  end
  return fields.sort(command, options.words(words, command), opts.model)
end

--- The same, with the model in place of its hyper-parameters.
function fields.subject(command, opts, words)
  local plan, hyper = fields.sorted(command, opts, words)
  return plan, fields.model(opts.model, hyper)
end

--- Splits fields into those with one value and those with a list of several.
---@return table single, table<string, any[]> several
function fields.split(command, texts)
  local single, several = {}, {}
  for name, text in pairs(texts) do
    local list = fields.list(command, name, text)
    if #list > 1 then several[name] = list else single[name] = list[1] end
  end
  return single, several
end

--- Refuses several names in `--cluster`. The path of a file may contain commas.
function fields.one_cluster(command, name)
  if name and name:find(",", 1, true) and not name:find "%.lua$" then
    error_module.raise("usage", several_clusters, command .. ": --cluster takes one cluster", name)
  end
end

fields.model_option = { "model", "NAME",
  "a model or an architecture by name or FILE.lua, or a Hugging Face config.json" }

--- The option of a command that prints its plan for a trainer.
fields.export_option = { "export", "FORMAT", "print the plan for a trainer: deepspeed, megatron or torchtitan",
  choices = { "deepspeed", "megatron", "torchtitan" } }

--- Prints a plan for a trainer. Settings that the format can state neither in a field nor in a comment go to standard
--- error.
---@param cluster string? of the plan, if the user named several
function fields.write_plan(format, model, plan, cluster)
  local text, left_out = require("ett.import.export").text(format, model, plan, cluster)
  io.write(text)
  for _, sentence in ipairs(format == "deepspeed" and left_out or {}) do
    io.stderr:write(("ett: not stated here: %s\n"):format(sentence))
  end
  if not plan.stack then
    io.stderr:write(("ett: note: the plan names no stack, so its time has no launch costs; try %s\n"):format(
      format == "deepspeed" and "stack=megatron_deepspeed" or "stack=" .. format))
  end
end

local function lines_of(rules, defaults)
  local rows = {}
  for _, name in ipairs(schema.keys(rules)) do
    local rule = rules[name]
    local long = type(rule) == "table" and rule or {}
    local text = long.help or schema.sentence(rule)
    local default = long.default
    if defaults and defaults[name] ~= nil then default = defaults[name] end
    if default ~= nil and default ~= false then
      text = ("%s (default %s)"):format(text:gsub(" %(default [^)]*%)$", ""),
        type(default) == "string" and default or schema.describe(default))
    end
    rows[#rows + 1] = { name, text }
  end
  return tables.text(rows, "ll", "  ")
end

--- Help text on the plan fields and, with --model NAME, on the model's hyper-parameters.
function fields.help(opts)
  local plan = require "ett.plan"
  local text = "Fields of the plan are words NAME=VALUE; hyper-parameters too, with --model NAME. Numbers may end in\n"
    .. "k, M, G or B, T, P (powers of 1000) or Ki, Mi, Gi, Ti (of 1024): 8Ki is 8192.\n\n" .. lines_of(plan.schema)
  if not opts.model then
    return text .. "\n\n`--help NAME` lists the hyper-parameters of the model NAME, too."
  end
  local defaults, unknown = model_module.defaults(opts.model)
  return ("%s\n\nhyper-parameters of %s%s:\n\n%s"):format(text, opts.model,
    unknown and (" (its defaults are unknown: %s)"):format(unknown) or "", lines_of(hyper_fields(opts.model), defaults))
end

return fields

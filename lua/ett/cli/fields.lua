--- Words NAME=VALUE of a command line as fields of a plan and hyper-parameters of a model.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local model_module = require "ett.model"
local named = require "ett.cli.named"
local options = require "ett.base.options"
local schema = require "ett.base.schema"
local tables = require "ett.report.table"

local fields = {}

--- The cluster of predict, sweep, search and compare without --cluster.
fields.default_cluster = "dgx_h100"

-- Raises if an unknown name of a model is that of a file which another option reads.
local function check_model_file(name)
  if name:find "%.lua$" or require("lfs").attributes(name, "mode") ~= "file" then return end
  local text = require("ett.io").read(name, 1 << 20)
  if text then error_module.wrap(name, require("ett.import.formats").check, name, text, "--model") end
end

--- Rules of the hyper-parameters that words may set.
local function hyper_fields(source)
  if type(source) == "table" then return source end
  if not source or model_module.is_file(source) then return source and model_module.fields(source) or {} end
  local ok, rules = pcall(named, model_module.fields, source)
  if ok then return rules end
  if rules.kind == "usage" then check_model_file(source) end
  error(rules, 0)
end

local several_clusters = "%s; for several, `ett search … --vary cluster=%s --each`"

local own_lists = {} -- names that an architecture file declares as lists

local product = "a plan has pp x tp x cp x dp devices"
local counts = {} -- other names for a plan's number of devices
for name in ("devices gpus num_devices num_gpus world_size"):gmatch "%S+" do counts[name] = true end

-- Words that are not fields of a plan, and the message on each.
local elsewhere = {}
for names, text in pairs {
  ["inference generation decode serving rollout rollouts"] = "ett predicts training steps, not inference or generation",
  ["power_cap power_limit"] = "power = { device_watts = … } in a cluster file limits the power of a device",
  ["nodes num_nodes nnodes"] = "the cluster states the number of devices in a node; " .. product,
  ["rampup_batch_size batch_size_rampup warmup_steps seq_warmup"] = "a prediction has one batch size and one "
    .. "sequence length; make a prediction for each",
} do
  for name in names:gmatch "%S+" do elsewhere[name] = text end
end

-- Text that a message adds for an unknown field.
local function hint(command, name, text, source, plan_rules, hyper_rules)
  if name == "cluster" and text:find(",", 1, true) then return several_clusters:format("", text) end
  local option = options.named(counts[name] and "devices" or name)
  if option then return ("; did you mean '%s'?"):format(option) end
  local answer = counts[name] and product or elsewhere[name]
  if answer then return "; " .. answer end
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
    local rule = into == hyper and hyper_rules[name]
    own_lists[name] = rule and (type(rule) == "table" and rule[1] or rule):find "^list" and true or nil
  end
  return plan, hyper
end

--- The fields of a plan as words to complete.
function fields.offers()
  local names = {}
  for i, name in ipairs(schema.keys(require("ett.plan").schema)) do names[i] = name .. "=" end
  return names
end

--- `hints` of a command (ett.base.options): its own, and for options that are fields of the plan or the model.
---@param own table<string, string>?
function fields.hints(own)
  return setmetatable(own or {}, { __index = function(_, option)
    local word = option and option:gsub("-", "_")
    if counts[word] then return options.named "devices" and "did you mean '--devices'?" or product end
    if elsewhere[word] then return elsewhere[word] end
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

local function is_list(name) return own_lists[name] or kind_of(name) == "list" end

-- Text that a message adds for a text that looks like a number or a range.
---@param ranges boolean? whether the command takes ranges
local function number_hint(text, ranges)
  local range, found = text:gsub("^(%d+)%-(%d+)$", "%1..%2")
  if found == 0 then return options.suffix_hint(text) end
  return (ranges and "; a range is %s" or "; `ett sweep` and `ett search` take a range, %s"):format(range)
end

-- The value, if its field of the plan can have it; else adds sentences to `found`.
---@param found string[]
---@param ranges boolean? whether the command takes ranges
local function checked(name, value, found, ranges)
  local plan = require "ett.plan"
  local rule = plan.schema[name]
  for _, sentence in ipairs(rule and schema.violations({ [name] = value }, { [name] = rule }) or {}) do
    found[#found + 1] = sentence .. (type(value) == "string" and number_hint(value, ranges) or "")
  end
  -- A stack's file may also have a fault of its own, which the plan reports.
  local is_named = name == "schedule" or name == "stack" and (tostring(value):find(":", 1, true)
    or not require("ett.operator.stack").exists(tostring(value)))
  if is_named and type(value) == "string" then
    plan.check_fields({ schedule = "1f1b", rank_order = require("ett.plan.ranks").default, [name] = value }, found)
  end
  return value
end

--- The values of fields, each read by read(name, text, found). Raises all wrong ones at once.
local function each_value(texts, read)
  local values, found = {}, {}
  for _, name in ipairs(schema.keys(texts)) do values[name] = read(name, texts[name], found) end
  if found[1] then error_module.raise("usage", "plan: %s", table.concat(found, "; ")) end
  return values
end

--- The values of a text that commas separate.
function fields.items(text)
  local list = {}
  for item in (text .. ","):gmatch("(.-),") do list[#list + 1] = options.value(item) end
  return list
end

local a_range = "^(%d[^,/]-)%.%.(%d[^,/]*)$"

--- Converts a text to the value of a field. Lists are split at commas; other fields have one value. The path of a file
--- may contain commas.
local function one_value(name, text, found)
  if is_list(name) then return fields.items(text) end
  if text:find ",." and not text:find("/", 1, true) or text:find(a_range) then
    error_module.raise("usage", "%s=%s has several values: `ett sweep` evaluates each of them, `ett search` finds the "
      .. "best", name, text)
  end
  return checked(name, options.value(text), found)
end

function fields.value(name, text) return each_value({ [name] = text }, one_value)[name] end

local most_values = 10000

--- The integers of "1..64" (doubling) or "8..64..8" (steps of 8). Numbers may have suffixes: "4Ki..64Ki".
local function range(command, name, text, low, rest, found)
  local high, step = rest:match "^(.-)%.%.(.+)$"
  local doubles = not high
  low, high, step = options.number(low), options.number(high or rest), options.number(step or "1")
  local whole = math.type(low) == "integer" and math.type(high) == "integer" and math.type(step) == "integer"
  if text:find("...", 1, true) or not whole or high > 1 << 53 or low < 1 or low > high or step < 1 then
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
  checked(name, list[#list], found)
  return list
end

local function several_values(command, name, text, found)
  if is_list(name) then return { one_value(name, text, found) } end
  local low, rest = text:match(a_range)
  if low then return range(command, name, text, low, rest, found) end
  local seen, list = {}, {}
  for item in (text .. ","):gmatch("(.-),") do
    if item:find(a_range) then
      error_module.raise("usage", "%s: %s=%s must be either a range or a list of values", command, name, text)
    end
    list[#list + 1] = checked(name, options.value(item), found, true)
  end
  for _, value in ipairs(list) do
    if seen[value] then
      error_module.raise("usage", "%s: %s=%s has the value %s twice", command, name, text, tostring(value))
    end
    seen[value] = true
  end
  return list
end

--- Converts the texts of fields, "1,2,4", "1..8" (doubling) or "8..64..8" (steps), to lists of values. A field that
--- is a list has one value.
local function lists_of(command, texts)
  return each_value(texts, function(name, text, found) return several_values(command, name, text, found) end)
end

--- The same for one field.
function fields.list(command, name, text) return lists_of(command, { [name] = text })[name] end

function fields.values(texts) return each_value(texts, one_value) end

--- The model of that name with hyper-parameters (values, not texts), or of a Hugging Face config.json.
function fields.model_of(source, hyper)
  local make = model_module.is_file(source) and model_module.huggingface or model_module.new
  return make(source, hyper)
end

--- Raises if a model cannot have a value of a hyper-parameter.
function fields.check_hyper(source, name, value)
  local rule = hyper_fields(source)[name]
  local found = rule and schema.violations({ [name] = value }, { [name] = rule }) or {}
  if found[1] then error_module.raise("usage", "%s: %s", source, found[1]) end
end

--- fields.model_of with the texts of hyper-parameters.
function fields.model(source, hyper)
  local values = fields.values(hyper)
  for _, name in ipairs(schema.keys(values)) do fields.check_hyper(source, name, values[name]) end
  return fields.model_of(source, values)
end

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
  for name, list in pairs(lists_of(command, texts)) do
    if #list > 1 then several[name] = list else single[name] = list[1] end
  end
  return single, several
end

--- The cluster of a word, by name or file.
function fields.cluster(text) return named(require("ett.profile.cluster").get, text) end

--- Refuses several names in `--cluster`, and unknown ones. The path of a file may contain commas.
function fields.one_cluster(command, name)
  if name and name:find(",", 1, true) and not name:find "%.lua$" then
    error_module.raise("usage", several_clusters, command .. ": --cluster takes one cluster", name)
  end
  local is_path = name and (name:find("/", 1, true) or name:find "%.lua$")
  if name and not is_path and not find.meant("clusters", name) then fields.cluster(name) end
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
  local text = "Give fields of the plan as words NAME=VALUE, and with --model NAME hyper-parameters, too. Numbers may\n"
    .. "end in k, M, G or B, T, P (powers of 1000) or Ki, Mi, Gi, Ti (of 1024): 8Ki is 8192.\n\n"
    .. lines_of(plan.schema)
  if not opts.model then
    return text .. "\n\n`--help NAME` lists the hyper-parameters of the model NAME, too."
  end
  local defaults, unknown = model_module.defaults(opts.model)
  return ("%s\n\nhyper-parameters of %s%s:\n\n%s"):format(text, opts.model,
    unknown and (" (its defaults are unknown: %s)"):format(unknown) or "", lines_of(hyper_fields(opts.model), defaults))
end

return fields

--- Files of trainers on a command line: the options --megatron-args and --plan of predict, compare, sweep and search.
local error_module = require "ett.base.error"
local fields = require "ett.cli.fields"
local merged = require "ett.base.merged"
local models = require "ett.search.models"
local schema = require "ett.base.schema"
local tables = require "ett.report.table"

local trainer_files = {}

--- The options of a command.
---@param many boolean? whether each may be given several times
function trainer_files.options(many)
  return { "megatron-args", "FILE", "launch flags of Megatron-LM: a script, with its words in quotes ('run.sh 7B 1'), "
    .. "or a list. Also a YAML file of NeMo, Megatron-Bridge, Primus or Megatron-LM's moe_recipes. With --model only "
    .. "the plan", many = many },
    { "plan", "FILE", "with --model: read the plan from a file of torchtitan (TOML), DeepSpeed (JSON), MaxText, "
      .. "GPT-NeoX, Accelerate, nanotron, TRL, LLaMA-Factory or Axolotl; or a file of --megatron-args", many = many }
end

-- Whether a file is one of those that --megatron-args reads. Raises if it is none that --plan reads.
local function is_launch(path)
  local formats, text = require "ett.import.formats", error_module.must(require("ett.io").read(path, 1 << 20))
  if formats.option(path, text) == "--megatron-args" then return true end
  formats.check_text(text)
  return false
end

-- The same for the option's value. Words may follow the path of a script.
local function names_launch(file)
  local path = require("lfs").attributes(file, "mode") and file or file:match "%S+" or file
  return error_module.wrap(path, is_launch, path)
end

local function refuse_both(command, opts)
  if opts.megatron_args and opts.plan then
    error_module.raise("usage", "%s: give --megatron-args or --plan, not both; --plan reads launch scripts, too",
      command)
  end
end

--- Moves a launch script of --plan to --megatron-args. Raises if there are two files, or a trainer's plan without a
--- model.
function trainer_files.check(command, opts)
  refuse_both(command, opts)
  if opts.plan and names_launch(opts.plan) then opts.megatron_args, opts.plan = opts.plan, nil end
  if opts.plan and not opts.model then
    error_module.raise("usage", "%s: --plan needs --model: the file does not describe the model", command)
  end
end

--- Splits words NAME=VALUE into plan fields and hyper-parameters, as texts.
function trainer_files.sort(command, opts, texts)
  return fields.sort(command, texts, opts.model or require("ett.model.hyper").fields)
end

--- The model and the plan of the file, overridden by plan fields and hyper-parameters. The file's notes are among the
--- model's.
---@param opts { model: string?, megatron_args: string?, plan: string? } one file
---@param plan table values
---@param hyper table values
---@return table model
---@return table plan
---@return table<string, string> plan fields that the file states, with the file's names
function trainer_files.read(opts, plan, hyper)
  local model
  if opts.model then
    for name, value in pairs(hyper) do fields.check_hyper(opts.model, name, value) end
    model = fields.model_of(opts.model, hyper)
  end
  if opts.megatron_args then
    local run = require("ett.import.megatron").read(opts.megatron_args, plan, hyper, model)
    return run.model, run.plan, run.stated
  end
  local own, notes, stated = require("ett.import.trainer").read(opts.plan, model, plan)
  model.notes = table.move(model.notes or {}, 1, #(model.notes or {}), #notes + 1, notes)
  return model, own, stated
end

-- Calls a function with arguments. If its error names fields of the plan, their names in the file are added.
---@param always boolean whether the error names the file if it is about no field of the file
local function call(opts, stated, always, fn, ...)
  if not stated then return fn(...) end
  local function named(raised)
    local object, words = error_module.traced(raised), {}
    local message = object.message
    for _, field in ipairs(schema.keys(stated)) do
      if message:find(("%%f[%%w_]%s = "):format(field)) or message:find(("field '%s'"):format(field), 1, true) then
        words[#words + 1] = ("%s is %s"):format(field, stated[field])
      end
    end
    if words[1] then object.message = ("%s; in the file %s"):format(message, table.concat(words, ", ")) end
    return (always or words[1]) and error_module.label(object, opts.plan or opts.megatron_args) or object
  end
  local found = table.pack(xpcall(fn, named, ...))
  if not found[1] then error(found[2], 0) end
  return table.unpack(found, 2, found.n)
end

--- Calls a function of the file's plan. Its error names the file, and the names that the fields have in the file.
---@param stated table<string, string>? of trainer_files.read; nil: without a file
function trainer_files.wrap(opts, stated, fn, ...) return call(opts, stated, true, fn, ...) end

--- The same for a function that also reads words of the command line: its error names the file only if it is about
--- fields that the file states.
function trainer_files.wrap_many(opts, stated, fn, ...) return call(opts, stated, false, fn, ...) end

-- The plan without the swept fields, and as a text the values of all its fields.
local function base_of(plan, over)
  local base, words = merged(plan), {}
  for name in pairs(over) do base[name] = nil end
  for i, name in ipairs(schema.keys(base)) do words[i] = ("%s=%s"):format(name, tables.value(base[name])) end
  return base, table.concat(words, " ")
end

--- The names in `over` that other fields of the file's plan follow, as the replicas follow the tensor ranks.
---@param read fun(values: table): table, table the model and the plan under values of the fields in `over` and `hyper`
local function leading(read, over, hyper)
  local names, bases, leads = schema.keys(merged(over, hyper)), {}, {}
  local function key(values)
    local words = {}
    for i, name in ipairs(names) do words[i] = tables.value(values[name]) end
    return table.concat(words, " ")
  end
  local all = models.combinations(names, merged(over, hyper))
  for _, values in ipairs(all) do
    local ok, raised, plan = pcall(read, values)
    if not ok and not models.refuses[error_module.from(raised).kind] then error(raised, 0) end
    bases[key(values)] = ok and select(2, base_of(plan, over)) or "refused"
  end
  for _, name in ipairs(schema.keys(over)) do
    for _, values in ipairs(all) do
      leads[name] = leads[name] or bases[key(values)] ~= bases[key(merged(values, { [name] = over[name][1] }))] or nil
    end
  end
  return leads
end

--- The fields `model`, `plan`, `over` and `hyper` of a sweep (ett.search.sweep) over plans of a file. Each plan is that
--- of trainer_files.read under the same values. Second: the fields that the file states, as trainer_files.read returns.
---@param plan table fixed fields, as values
---@param over table<string, any[]> swept fields of the plan
---@param fixed table fixed hyper-parameters, as values
---@param hyper table<string, any[]> swept hyper-parameters
function trainer_files.swept(opts, plan, over, fixed, hyper)
  local first = {}
  for _, own in ipairs { over, hyper } do for name, list in pairs(own) do first[name] = list[1] end end
  local function read(values)
    local own, sizes = merged(plan), merged(fixed)
    for name, value in pairs(merged(first, values)) do (over[name] and own or sizes)[name] = value end
    return trainer_files.read(opts, own, sizes)
  end
  local leads, outer, inner = leading(read, over, hyper), merged(hyper), {}
  for name, list in pairs(over) do (leads[name] and outer or inner)[name] = list end
  local function base(values)
    local model, own, stated = read(values)
    return model, (base_of(own, inner)), stated
  end
  if next(outer) then return { model = base, hyper = outer, plan = {}, over = inner }, select(3, base {}) end
  local model, own, stated = base {}
  return { model = model, plan = own, over = inner }, stated
end

--- The files of options that are given several times: { megatron_args = } or { plan = }, each with the model.
--- Both options are refused, because their order on the command line, which is that of the sides, is not known.
function trainer_files.list(command, opts)
  refuse_both(command, opts)
  local list = {}
  for _, option in ipairs { "megatron_args", "plan" } do
    for _, file in ipairs(opts[option] or {}) do
      list[#list + 1] = { model = opts.model, [option] = file }
      trainer_files.check(command, list[#list])
    end
  end
  return list
end

return trainer_files

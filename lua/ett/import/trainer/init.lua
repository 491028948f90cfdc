--- Reads the plan in a trainer's configuration: torchtitan's TOML, DeepSpeed's JSON, MaxText's YAML or script, and YAML
--- of GPT-NeoX, Accelerate, nanotron, Transformers and Axolotl.
--
--   local plan, notes = require("ett.import.trainer").read("llama3_8b.toml", model, { dp = 64 })
--
-- The model is not in the file. notes: settings of the file that the plan does not state.
--
-- The module of each trainer has a function plan(config, given, model, note, assume). config(section, name, default)
-- returns a field (trainer/reader.lua); given has plan fields that override the file. note(format, …) adds a note.
-- assume(format, …) names a setting that neither the file nor an argument states.
local accelerate = require "ett.import.trainer.accelerate"
local error_module = require "ett.base.error"
local hjson = require "ett.import.trainer.hjson"
local json = require "ett.json"
local merged = require "ett.base.merged"
local nanotron = require "ett.import.trainer.nanotron"
local neox = require "ett.import.trainer.neox"
local overrides = require "ett.import.trainer.overrides"
local plan_fields = require "ett.plan.fields"
local reader = require "ett.import.trainer.reader"
local schema = require "ett.base.schema"
local transformers = require "ett.import.trainer.transformers"
local without = require "ett.import.trainer.without"

local trainer = {}

-- Sections of torchtitan that have an effect only if they are enabled.
local switched = { fault_tolerance = true, validation = true }
-- Switches of torchtitan and DeepSpeed that are on by default. Others are off.
local on = { enable_loss_parallel = true, memory_efficient_linear = true,
  pipeline_parallel_expert_parallel_overlap = true }

local function is_default(name, value)
  return value == (on[name] or false) or value == "" or value == json.null
    or type(value) == "table" and next(value) == nil
end

--- Fields of a section that no reader asked for. own: names of the trainer without effect.
local function unread(from, section, seen, own)
  local list = {}
  for _, name in ipairs(schema.keys(from)) do
    local value = from[name]
    local off = is_default(name, value) or section == "" and (name:find "^[_/]" or type(value) == "table"
      and (value.enabled == false or switched[name] and not (value.enabled or value.enable)))
    local has_effect = not (off or without.all[name] or own and own[name])
    if has_effect and not seen[section .. "." .. name] then list[#list + 1] = name end
  end
  return list
end

local function note_unread(document, seen, note, own)
  local read, others = { [""] = {} }, schema.keys(document[""] or {}) -- fields of TOML before its first section
  for _, path in ipairs(schema.keys(seen)) do
    local section, name = path:match "^(.*)%.([^%.]*)$"
    read[section] = read[section] or {}
    table.insert(read[section], name)
  end
  -- Names that the file lacks, of which one that is not read may be a misspelling.
  local function absent(names, from)
    local list = {}
    for _, name in ipairs(names) do if from[name] == nil then list[#list + 1] = name end end
    return list
  end
  for _, section in ipairs(schema.keys(document)) do
    local from = document[section]
    local known = section ~= "" and read[section] and type(from) == "table"
    local list = known and unread(from, section, seen, own) or {}
    if #list > 0 then
      note("fields of %s that are not modelled: %s", section, error_module.ignored(list, absent(read[section], from)))
    end
  end
  for _, name in ipairs(unread(document, "", seen, own)) do
    if not read[name] and name ~= "" then others[#others + 1] = name end
  end
  for section in pairs(read) do table.insert(read[""], section) end
  if #others > 0 then note("not modelled: %s", error_module.ignored(others, absent(read[""], document))) end
end

-- Names at the top of a file that show its trainer. Other programs' YAML files hold `weak` names, too.
local marks = { torchtitan = {}, deepspeed = {}, weak = {} }
for kind, names in pairs { torchtitan = "activation_checkpoint experimental float8 mx parallelism quantize training",
  deepspeed = "train_batch_size train_micro_batch_size_per_gpu zero_optimization",
  weak = "activation_checkpointing bf16 bfloat16 fp16 gradient_accumulation_steps gradient_clipping" } do
  for name in names:gmatch "%S+" do marks[kind][name] = true end
end

local function refuse_unknown()
  error_module.raise("format", "no trainer's file: found no section of torchtitan ([training], [parallelism], …), no "
    .. "field of DeepSpeed (zero_optimization, train_batch_size, …), none of MaxText (per_device_batch_size, "
    .. "ici_fsdp_parallelism, …), GPT-NeoX (pipe-parallel-size, …), Accelerate (distributed_type), "
    .. "nanotron (parallelism, tokens), Transformers (per_device_train_batch_size, …) or Axolotl (base_model, "
    .. "micro_batch_size); "
    .. "--megatron-args reads further files; fields of a plan are words NAME=VALUE")
end

--- Whether a text has one of the names behind `before` and in front of `after`, as patterns.
local function marked(text, names, before, after)
  for name in pairs(names) do
    if text:find(before .. name .. after) then return true end
  end
  return false
end

--- The trainer of a file: by its name, else by its fields.
local function kind_of(path, text)
  if path:find "%.toml$" then return "torchtitan" end
  if neox.known(text) then return "neox" end
  if accelerate.known(text) then return "accelerate" end
  if nanotron.known(text) then return "nanotron" end
  if transformers.known(text) then return "transformers" end
  if path:find "%.json$" then return "deepspeed" end
  if overrides.known(text) then return "maxtext" end
  if marked("\n" .. text, marks.torchtitan, "\n%s*%[", "[%].]") then return "torchtitan" end
  local is_yaml = path:find "%.ya?ml$"
  for _, names in ipairs { marks.deepspeed, not is_yaml and marks.weak or {} } do
    if marked(text, names, "%f[%w_]", "[\"']?%s*:") then return "deepspeed" end
  end
  refuse_unknown()
end

--- Raises if no name of a document is one of its trainer's, or a misspelling of one.
local function check_marks(kind, document)
  local known = kind == "deepspeed" and merged(marks.deepspeed, marks.weak) or marks.torchtitan
  local names, count = schema.keys(known), 0
  for name in pairs(document) do
    if known[name:match "^[^.]*"] or error_module.misspelt(name, names) then return end
    count = count + (name ~= "" and 1 or 0)
  end
  if count > 0 then refuse_unknown() end
end

local decoders = { torchtitan = function(text) return require "ett.import.trainer.toml"(text) end,
  deepspeed = function(text, path) return error_module.must(json.decode(hjson(text), { name = path })) end,
  neox = neox.fields, accelerate = accelerate.fields, nanotron = nanotron.fields, transformers = transformers.fields,
  maxtext = function(text, path) return overrides.fields(text, path:find "%.ya?ml$" ~= nil) end }

-- Names of plan fields in the files, for messages. Of several names, the first that is stated and not false counts.
local own_names = {
  torchtitan = { seq = "training.seq_len", global_batch = "training.global_batch_size",
    tp = "parallelism.tensor_parallel_degree", pp = "parallelism.pipeline_parallel_degree",
    cp = "parallelism.context_parallel_degree", ep = "parallelism.expert_parallel_degree",
    etp = "parallelism.expert_tensor_parallel_degree", schedule = "parallelism.pipeline_parallel_schedule" },
  deepspeed = { micro_batch = ".train_micro_batch_size_per_gpu", micro_batches = ".gradient_accumulation_steps",
    global_batch = ".train_batch_size", tp = "tensor_parallel.autotp_size", cp = ".sequence_parallel_size",
    ep = "expert_parallel.autoep_size", zero = "zero_optimization.stage" },
  maxtext = { seq = ".max_target_length", micro_batches = ".gradient_accumulation_steps",
    micro_batch = ".per_device_batch_size", ep = ".ici_expert_parallelism" } }

-- The plan fields that a document states and `given` does not replace, with the document's names of them.
local function stated_in(document, names, given)
  local stated = {}
  for field, paths in pairs(names) do
    for section, name in paths:gmatch "(%S*)%.([^.%s]*)" do
      local from = section == "" and document[""] == nil and document or document[section]
      local is_stated = type(from) == "table" and from[name] ~= nil and from[name] ~= false
      if given[field] == nil and is_stated then stated[field] = stated[field] or name end
    end
  end
  return stated
end

own_names.neox = { seq = ".seq_length", tp = ".model_parallel_size", pp = ".pipe_parallel_size",
  ep = ".moe_expert_parallel_size" }
for _, field in ipairs { "micro_batch", "micro_batches", "global_batch", "zero" } do
  own_names.neox[field] = own_names.deepspeed[field]
end
own_names.accelerate = { zero = "deepspeed_config.zero_stage", dp = ".num_processes",
  tp = "parallelism_config.parallelism_config_tp_size", cp = "parallelism_config.parallelism_config_cp_size" }
own_names.transformers = { micro_batches = ".gradient_accumulation_steps", tp = ".tensor_parallel_size",
  cp = ".context_parallel_size", ep = ".expert_parallel_size", lora_rank = ".lora_rank",
  lora_dropout = ".lora_dropout",
  frozen_weights = ".load_in_4bit .load_in_8bit .quantization_bit .adapter" }
own_names.nanotron = { seq = "tokens.sequence_length", micro_batch = "tokens.micro_batch_size",
  micro_batches = "tokens.batch_accumulation_per_replica", dp = "parallelism.dp", tp = "parallelism.tp",
  pp = "parallelism.pp", cp = "parallelism.context_parallel_size", zero = "optimizer.zero_stage" }

local titles = { torchtitan = "torchtitan's TOML", deepspeed = "DeepSpeed's JSON", maxtext = "MaxText's fields",
  neox = "GPT-NeoX' YAML", accelerate = "Accelerate's YAML", nanotron = "nanotron's YAML",
  transformers = "YAML of Transformers or Axolotl" }

local plans = { neox = neox.plan, accelerate = accelerate.plan, nanotron = nanotron.plan,
  transformers = transformers.plan }

-- The document of a text. The error of a file whose name does not state its format names the format.
local function decoded(kind, text, path)
  local ok, document = pcall(decoders[kind], text, path)
  if ok then return document end
  local object = error_module.from(document)
  if not (path:find "%.toml$" or path:find "%.json$") then
    object.message = ("%s; the file is read as %s"):format(object.message, titles[kind])
  end
  error(object, 0)
end

local function read(path, model, given)
  local text, seen, notes = error_module.must(require("ett.io").read(path, 1 << 20)), {}, {}
  local formats = require "ett.import.formats"
  text = text:gsub("^\xEF\xBB\xBF", "") -- a byte order mark
  formats.check(path, text, "--plan")
  formats.check_text(text)
  local kind = kind_of(path, text)
  local document = decoded(kind, text, path)
  if type(document) ~= "table" or document[1] ~= nil then
    error_module.raise("format", "must hold fields with names, got %s", schema.describe(document))
  end
  if marks[kind] then check_marks(kind, document) end
  local function note(...) notes[#notes + 1] = (...):format(select(2, ...)) end
  local missing = {} -- settings that neither the file nor an argument states, with the values taken
  local function assume(...) missing[#missing + 1] = (...):format(select(2, ...)) end
  local plan_of = plans[kind] or require("ett.import.trainer." .. kind)
  local plan = plan_of(reader(document, seen), given, model, note, assume)
  if missing[1] then note("not in the file: %s", table.concat(missing, ", ")) end
  note_unread(document, seen, note, without[kind])
  for name, value in pairs(given) do plan[name] = value end
  if given.micro_batches and not given.global_batch then plan.global_batch = nil end
  return plan, notes, stated_in(document, own_names[kind], given)
end

--- The plan of a configuration.
---@param path string ends with .toml for torchtitan's, .json for DeepSpeed's; else the text decides
---@param model table of ett.model
---@param given table? plan fields that override the file
---@return table plan, string[] notes
---@return table<string, string> plan fields that the file states, with the file's names
function trainer.read(path, model, given)
  schema.argument(path, "string", "ett.import.trainer.read", "path")
  plan_fields.check_some(given or {})
  return error_module.wrap(path, read, path, model, given or {})
end

return trainer

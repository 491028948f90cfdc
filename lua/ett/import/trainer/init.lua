--- Reads the plan in a trainer's configuration: torchtitan's TOML, DeepSpeed's JSON, or MaxText's YAML or script.
--
--   local plan, notes = require("ett.import.trainer").read("llama3_8b.toml", model, { dp = 64 })
--
-- The model is not in the file. notes: settings of the file that the plan does not state.
local error_module = require "ett.base.error"
local hjson = require "ett.import.trainer.hjson"
local json = require "ett.json"
local merged = require "ett.base.merged"
local overrides = require "ett.import.trainer.overrides"
local plan_fields = require "ett.plan.fields"
local schema = require "ett.base.schema"

local trainer = {}

--- Reads fields of a document, all of the kind of their default (nil: a number), or of another kind if one is given.
--- Numbers are above 0 if their default is. null and "auto" count as absent; the second result is true for "auto", the
--- third for an absent field.
local function reader(document, seen)
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
    if type(value) ~= kind and type(value) ~= other then
      error_module.raise("format", "%s must be a %s, got %s", name, kind, schema.describe(value))
    end
    if kind == "number" and (default or 1) > 0 and value <= 0 then
      error_module.raise("format", "%s must be above 0, got %s", name, schema.describe(value))
    end
    return math.type(value) == "float" and math.tointeger(value) or value
  end
end

-- Sections of torchtitan that have an effect only if they are enabled.
local switched = { fault_tolerance = true, validation = true }
-- Fields and sections that do not change the step, or that the estimate always includes: DeepSpeed's, torchtitan's
-- (torchtitan/config/job_config.py).
local without = {}
for name in ([[
  allgather_bucket_size allgather_partitions contiguous_gradients determinism_check early_stop
  ignore_unused_parameters load_from_fp32_weights preserve_rng_state round_robin_gradients
  stage3_gather_16bit_weights_on_model_save stage3_max_live_parameters stage3_max_reuse_distance
  stage3_param_persistence_threshold stage3_prefetch_bucket_size sub_group_size

  aio autotuning checkpoint comet comms_config comms_logger csv_monitor dataloader_drop_last dump_state flops_profiler
  gradient_predivide_factor log_level memory_breakdown monitor_config nebula prescale_gradients scheduler
  steps_per_print tensorboard timers vocabulary_size wall_clock_breakdown wandb zero_allow_untested_optimizer
  zero_force_ds_cpu_optimizer

  auto_cast check_grad_overflow consecutive_hysteresis hysteresis immediate_grad_update initial_scale_power
  legacy_fusion load_balance_coeff loss_scale loss_scale_window min_loss_scale params preset_model

  checkpoint comm debug experimental float8 job lr_scheduler memory_estimation metrics mx profiling
  quantize.dense.float8 quantize.dense.mx quantize.grouped_mm.float8 quantize.grouped_mm.mx quantize.linear.float8
  quantize.linear.mx quantize.moe.float8 quantize.moe.mx training.dataloader validation.dataloader

  backend beta1 beta2 dataset dataset_path deterministic emulate eps filter_fqns force_recompute_fp8_weight_in_bwd
  gc_debug gc_freq hf_assets_path implementation lr mxfp8_dim1_cast_kernel_choice
  precompute_float8_dynamic_scale_for_fsdp print_after_conversion recipe_name seed steps tokenizer_path
  visualize_memory_budget_pareto weight_decay]])
  :gmatch "%S+" do
  without[name] = true
end

-- Switches of torchtitan and DeepSpeed that are on by default. Others are off.
local on = { enable_loss_parallel = true, memory_efficient_linear = true,
  pipeline_parallel_expert_parallel_overlap = true }

local function is_default(name, value)
  return value == (on[name] or false) or value == "" or value == json.null
    or type(value) == "table" and next(value) == nil
end

--- Fields of a section that no reader asked for.
local function unread(from, section, seen)
  local list = {}
  for _, name in ipairs(schema.keys(from)) do
    local value = from[name]
    local off = is_default(name, value) or section == "" and (name:find "^[_/]" or type(value) == "table"
      and (value.enabled == false or switched[name] and not (value.enabled or value.enable)))
    if not (seen[section .. "." .. name] or without[name] or off) then list[#list + 1] = name end
  end
  return list
end

local function note_unread(document, seen, note)
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
    local list = section ~= "" and read[section] and type(from) == "table" and unread(from, section, seen) or {}
    if #list > 0 then
      note("fields of %s that are not modelled: %s", section, error_module.ignored(list, absent(read[section], from)))
    end
  end
  for _, name in ipairs(unread(document, "", seen)) do
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
    .. "field of DeepSpeed (zero_optimization, train_batch_size, …) and none of MaxText (per_device_batch_size, "
    .. "ici_fsdp_parallelism, …); --megatron-args reads further files; fields of a plan are words NAME=VALUE")
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
  maxtext = function(text, path) return overrides.fields(text, path:find "%.ya?ml$" ~= nil) end }

-- Names of plan fields in the files, for messages.
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
  for field, path in pairs(names) do
    local section, name = path:match "^(.*)%.([^.]*)$"
    local from = section == "" and document[""] == nil and document or document[section]
    if given[field] == nil and type(from) == "table" and from[name] ~= nil then stated[field] = name end
  end
  return stated
end

local titles = { torchtitan = "torchtitan's TOML", deepspeed = "DeepSpeed's JSON", maxtext = "MaxText's fields" }

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
  formats.check(path, text, "--plan")
  formats.check_text(text)
  local kind = kind_of(path, text)
  local document = decoded(kind, text, path)
  if type(document) ~= "table" or document[1] ~= nil then
    error_module.raise("format", "must hold fields with names, got %s", schema.describe(document))
  end
  if kind ~= "maxtext" then check_marks(kind, document) end
  local function note(...) notes[#notes + 1] = (...):format(select(2, ...)) end
  local missing = {} -- settings that neither the file nor an argument states, with the values taken
  local function assume(...) missing[#missing + 1] = (...):format(select(2, ...)) end
  local plan = require("ett.import.trainer." .. kind)(reader(document, seen), given, model, note, assume)
  if missing[1] then note("not in the file: %s", table.concat(missing, ", ")) end
  note_unread(document, seen, note)
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

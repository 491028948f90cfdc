--- Reads the plan in a trainer's configuration: torchtitan's TOML or DeepSpeed's JSON.
--
--   local plan, notes = require("ett.import.trainer").read("llama3_8b.toml", model, { dp = 64 })
--
-- The model is not in the file. notes: settings of the file that the plan does not state.
local error_module = require "ett.base.error"
local json = require "ett.json"
local schema = require "ett.base.schema"

local trainer = {}

--- Reads fields of a document, all of the kind of their default (nil: a number). Numbers are above 0 if their default
--- is. null and "auto" count as absent; the second result is true for "auto".
local function reader(document, seen)
  return function(section, name, default)
    local from, kind = document[section] or {}, type(default == nil and 1 or default)
    if from == json.null then from = {} end
    if section == "" and not document[""] then from = document end
    if type(from) ~= "table" then error_module.raise("format", "'%s' must be a table", section) end
    seen[section .. "." .. name] = true
    local value = from[name]
    if value == nil or value == json.null or value == "auto" then return default, value == "auto" end
    if type(value) ~= kind then
      error_module.raise("format", "%s must be a %s, got %s", name, kind, schema.describe(value))
    end
    if kind == "number" and (default or 1) > 0 and value <= 0 then
      error_module.raise("format", "%s must be above 0, got %s", name, schema.describe(value))
    end
    return math.type(value) == "float" and math.tointeger(value) or value
  end
end

-- Sections whose fields change the step. The fields in `without` do not change it, or the estimate always includes
-- them.
local sections = { "activation_checkpoint", "parallelism", "zero_optimization" }
local without = {}
for name in ([[
  allgather_bucket_size allgather_partitions contiguous_gradients determinism_check disable_loss_parallel early_stop
  ignore_unused_parameters load_from_fp32_weights preserve_rng_state reduce_scatter round_robin_gradients
  stage3_gather_16bit_weights_on_model_save stage3_max_live_parameters stage3_max_reuse_distance
  stage3_param_persistence_threshold stage3_prefetch_bucket_size sub_group_size]]):gmatch "%S+" do
  without[name] = true
end

local function read(path, model, given)
  local kind = path:find "%.toml$" and "torchtitan" or "deepspeed"
  local text, seen, notes = error_module.must(require("ett.io").read(path, 1 << 20)), {}, {}
  local document = kind == "torchtitan" and require "ett.import.trainer.toml"(text)
    or error_module.must(json.decode(text))
  if type(document) ~= "table" then error_module.raise("format", "must be an object") end
  local function note(...) notes[#notes + 1] = (...):format(select(2, ...)) end
  local plan = require("ett.import.trainer." .. kind)(reader(document, seen), given, model, note)
  for _, section in ipairs(sections) do
    local others = {}
    for _, name in ipairs(type(document[section]) == "table" and schema.keys(document[section]) or {}) do
      if not (seen[section .. "." .. name] or without[name]) then others[#others + 1] = name end
    end
    if #others > 0 then note("fields of %s that are not modelled: %s", section, table.concat(others, ", ")) end
  end
  for name, value in pairs(given) do plan[name] = value end
  if given.micro_batches and not given.global_batch then plan.global_batch = nil end
  return plan, notes
end

--- The plan of a configuration.
---@param path string ends with .toml for torchtitan's
---@param model table of ett.model
---@param given table? plan fields that override the file
---@return table plan, string[] notes
function trainer.read(path, model, given)
  schema.argument(path, "string", "ett.import.trainer.read", "path")
  return error_module.wrap(path, read, path, model, given or {})
end

return trainer

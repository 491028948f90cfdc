--- Models: an architecture with its hyper-parameters.
--
--   model.new("llama", { layers = 32, hidden = 4096, heads = 32, vocab = 32000 })
--   model.new("llama3-70b", { layers = 40 })    -- a preset of lua/models with another number of layers
--   model.huggingface "config.json"
--   model.list({ "rms_norm", "linear_qkv", … }, { layers = 32, … })    -- plain operator names
local architecture = require "ett.model.architecture"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local list = require "ett.model.list"
local presets = require "ett.model.presets"
local schema = require "ett.base.schema"

local model = {}

--- The preset of a name; nil if the name is an architecture or a function. Raises for unknown names.
local function preset_of(name)
  if type(name) ~= "string" then return nil end
  if name:match "%.lua$" then return presets.of_file(name) end
  local path = find.path("lua/architectures", name)
  if path then -- a file beside the script may hold a preset or an architecture
    local value = path == find.path("lua/models", name) and find.load_file(path)
    if type(value) ~= "table" or value.architecture == nil then return nil end
  end
  local preset, several = presets.find(name)
  return preset or presets.refuse(name, several)
end

--- A model with its name, and with notes placed before the notes of its operators.
local function noted(built, name, notes)
  built.name, built.notes = name, table.move(built.notes, 1, #built.notes, #notes + 1, notes)
  return built
end

-- A model of an architecture. A name of ett's without hyper-parameters may mean a public model: `--model mixtral`.
local function of_architecture(name, hyper)
  if type(name) ~= "string" or type(hyper) ~= "table" or next(hyper) then return architecture.new(name, hyper) end
  local ok, built = pcall(architecture.new, name, hyper)
  if ok then return built end
  if name:find "%.lua$" or error_module.from(built).kind ~= "model" then error(built, 0) end
  local _, models = find.meant("lua/models", name)
  error_module.raise("model", "%s; '%s' is an architecture, %s", tostring(built), name, #models > 0
    and "its models are " .. find.shown(models) or "`ett list models` names public models")
end

--- A model from an architecture (name or function) or a preset, and hyper-parameters.
---@param hyper table? required for an architecture; overrides the values of a preset
function model.new(name, hyper)
  local preset = preset_of(name)
  if not preset then return of_architecture(name, hyper or type(name) == "string" and {} or nil) end
  local all, label = presets.overlay(preset, schema.argument(hyper or {}, "table", "ett.model.new", "hyper"))
  local from = name:match "%.lua$" and find.label(name) or preset.name
  local built = error_module.wrap(from, architecture.new, preset.architecture, all)
  return noted(built, label, { preset.note })
end

-- A JSON text whose bare words Infinity, -Infinity and NaN are texts. Python's json module writes them, such as in the
-- time_step_limit of Mamba-2 (huggingface/transformers, pull request 42959). As texts they are refused where a number
-- is needed.
local function with_quoted_words(text)
  if not (text:find("Infinity", 1, true) or text:find("NaN", 1, true)) then return text end
  local pieces, at = {}, 1
  while at <= #text do
    local quote = text:find('"', at, true) or #text + 1
    local outside = text:sub(at, quote - 1):gsub("%f[%w-]%-?Infinity%f[^%w]", '"%0"'):gsub("%f[%w-]NaN%f[^%w]", '"%0"')
    local stop = quote
    repeat
      stop = text:find('["\\]', stop + 1) or #text
      local escape = text:sub(stop, stop) == "\\"
      if escape then stop = stop + 1 end
    until not escape or stop > #text
    pieces[#pieces + 1] = outside .. text:sub(quote, stop)
    at = stop + 1
  end
  return table.concat(pieces)
end

--- The architecture of a Hugging Face config.json, its hyper-parameters, notes, model type and the part that was read.
local function read_configuration(path)
  if require("lfs").attributes(path, "mode") == "directory" then path = path:gsub("/+$", "") .. "/config.json" end
  local text = error_module.must(require("ett.io").read(path, 16 << 20))
  error_module.wrap(path, find.load("lua/ett/import", "formats").check, path, text, "--model")
  local config = error_module.must(require("ett.json").decode(with_quoted_words(text), { name = path }))
  if type(config) ~= "table" then error_module.raise("format", "%s: must hold a JSON object", path) end
  return find.load("lua/ett/import", "huggingface").hyper(config, path)
end

--- Rules of the hyper-parameters of an architecture, a preset or a config.json.
---@return table<string, table|string>
function model.fields(name)
  if model.is_file(name) then return (architecture.fields((read_configuration(name)))) end
  local preset = preset_of(name)
  if not preset then return (architecture.fields(name)) end
  return (error_module.wrap(name:match "%.lua$" and find.label(name) or preset.name, architecture.fields,
    preset.architecture))
end

-- A valid value for a required field of an architecture; nil if the field is optional.
local function any_value(rule)
  local kind = type(rule) == "table" and rule[1] or rule
  if type(rule) == "table" and (rule.optional or rule.default ~= nil) or tostring(kind):match "%?$" then return nil end
  if type(rule) == "table" and rule.one_of then return rule.one_of[1] end
  return ({ string = "", boolean = false, list = {}, table = {}, fraction = 0.5 })[kind] or 2
end

--- Default values of hyper-parameters: a preset's values, or the constants that an architecture sets. Defaults derived
--- from the width are left out: the architecture is built with two widths, and values that differ are dropped. If it
--- cannot be built, the second result is the reason.
---@return table<string, any>, string?
function model.defaults(name)
  if model.is_file(name) then return model.huggingface(name).hyper end
  local preset = preset_of(name)
  if preset then return model.new(name).hyper end
  local values
  for _, width in ipairs { 1024, 2048 } do
    local probe = { layers = 2, hidden = width, heads = width // 64, vocab = width }
    for field, rule in pairs(architecture.fields(name)) do
      if probe[field] == nil then probe[field] = any_value(rule) end
    end
    local ok, built = pcall(architecture.new, name, probe)
    if not ok then
      probe.experts, probe.top_k = width // 64, width // 512
      ok, built = pcall(architecture.new, name, probe)
    end
    if not ok then return {}, tostring(built) end
    local seen = values or built.hyper
    values = {}
    for field, value in pairs(built.hyper) do
      if probe[field] == nil and seen[field] == value then values[field] = value end
    end
  end
  return values
end

--- A model whose repeated layer is a list of operator names (an encoder_function_list).
--- Embedding, final norm, head and loss are added. Collectives enclose each tensor-parallel region.
function model.list(names, hyper)
  schema.argument(hyper, "table", "ett.model.list", "hyper")
  local built = architecture.new(function(clean) return list(names, clean) end, hyper)
  built.name = "encoder_function_list"
  return built
end

--- A model from a Hugging Face config.json or its folder; `given` overrides its hyper-parameters. model.notes lists the
--- ignored settings.
function model.huggingface(path, given)
  schema.argument(path, "string", "ett.model.huggingface", "path")
  local name, hyper, notes, kind, part = read_configuration(path)
  local label = ("%s (%s)"):format(kind, find.label((path:gsub("/+$", ""))))
  hyper, label = presets.overlay({ hyper = hyper, name = label }, given or {})
  local ok, built = pcall(error_module.wrap, path, architecture.new, name, hyper)
  if not ok then
    local fields_in = find.load("lua/ett/import", "huggingface").fields_in
    built.message = built.message .. fields_in(built.message, part)
    error(built, 0)
  end
  return noted(built, label, notes)
end

--- Whether a name is that of a public model (lua/models) or a file of one. Raises for unknown names.
function model.is_preset(name) return preset_of(name) ~= nil end

--- Whether a name is a file, not an architecture or a model. A repository name ("Qwen/Qwen3-8B") is not a file.
function model.is_file(name)
  if type(name) ~= "string" or name:match "%.lua$" then return false end
  if name:match "%.json$" then return true end
  return name:match "/" ~= nil and not presets.of_repository(name)
end

return model

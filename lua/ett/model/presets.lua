--- Presets: public models by name, one file each in lua/models.
--
--   presets.find "llama3-70b"   --> { name, source, architecture, parameters, hyper, note? }
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local schema = require "ett.base.schema"

local presets = {}

local fields = { name = "string?", summary = "string?", source = "string", architecture = "string",
  parameters = "positive", hyper = "table", note = "string?", aliases = "table?" }

local function checked(value, path)
  local preset = schema.check(value, fields, find.label(path))
  preset.name = preset.name or find.name_of(path)
  return preset
end

-- Presets by the repositories in their sources and by their aliases. All files of folders lua/models are read at the
-- first call; those beside a script may be other programs.
local by_repository, by_alias, generation

local function read_all()
  if generation == find.generation then return end
  by_repository, by_alias = {}, {}
  for _, entry in ipairs(find.list "lua/models") do
    local preset = entry.path:find "/lua/models/[^/]+%.lua$" and checked(find.load_file(entry.path), entry.path)
      or { source = "" }
    for word in preset.source:lower():gmatch "[%w%-_%.]+/[%w%-_%.]+" do
      by_repository[word] = by_repository[word] or entry.name
    end
    for _, alias in ipairs(preset.aliases or {}) do by_alias[find.plain(alias)] = entry.name end
  end
  generation = find.generation -- only if no file is faulty
end

--- The name of the preset whose source is a repository such as "meta-llama/Meta-Llama-3-70B", or nil.
function presets.of_repository(repository)
  local wanted = repository:lower()
  if not wanted:match "^[%w%-_%.]+/[%w%-_%.]+$" then return nil end
  read_all()
  return by_repository[wanted]
end

local function of_alias(name)
  read_all()
  return by_alias[find.plain(name)]
end

--- The preset of a name; else nil and the names of possible presets. Case, "-", "_" and "." are ignored. A whole alias
--- precedes a part of another name: glm-4.7 is not glm-4.7-flash.
---@return table?, string[]
function presets.find(name)
  local wanted = name:find("/", 1, true) and presets.of_repository(name) or name
  local meant, several = not find.path("lua/models", wanted) and of_alias(wanted) or nil, {}
  if not meant then meant, several = find.meant("lua/models", wanted) end
  if not meant then return nil, several end
  local path = find.path("lua/models", meant)
  return checked(find.load_file(path), path), {}
end

--- The preset of a file; nil if the file holds an architecture.
function presets.of_file(path)
  local value = find.load_file(path)
  if type(value) ~= "table" or value.architecture == nil then return nil end
  return checked(value, path)
end

--- Hyper-parameters of a preset, overridden by others, and the name of the result.
---@return table hyper, string name
function presets.overlay(preset, given)
  local hyper, words = require "ett.base.merged"(preset.hyper, given), {}
  for _, field in ipairs(schema.keys(given)) do
    if given[field] ~= preset.hyper[field] then
      local value = given[field]
      words[#words + 1] = ("%s=%s"):format(field, type(value) == "table" and "…" or tostring(value))
    end
  end
  return hyper, #words == 0 and preset.name or ("%s with %s"):format(preset.name, table.concat(words, " "))
end

--- Raises an error for a name that is neither an architecture nor a preset.
function presets.refuse(name, several)
  if #several > 1 then
    error_module.raise("missing", "the model '%s' may be %s; give one of them", name, find.shown(several))
  end
  if name:match "%.json$" then
    error_module.raise("missing", "unknown model '%s'; ett.model.huggingface reads a config.json", name)
  end
  local known = find.names "lua/models"
  local architectures = find.names "lua/architectures"
  table.move(architectures, 1, #architectures, #known + 1, known)
  table.sort(known)
  local hint = several[1] and ("; did you mean '%s'?"):format(several[1]) or error_module.suggestion(name, known)
  error_module.raise("missing", "unknown model '%s'%s", name,
    hint ~= "" and hint or "; `ett list models` and `ett list architectures` name them all")
end

return presets

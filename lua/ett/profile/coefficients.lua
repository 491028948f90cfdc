--- A profile over coefficient files: small regressors that are shipped with a cluster (made by ett.profile.calibrate).
--
-- A folder holds one Lua file per pool of operators, and one per kind of collective:
--   return { format = "ett coefficients 1", pool = "gemm", dtype = "fp16", source = "…",
--     fitted = "2026-11-21", models = { forward = { rows = 7000, error = 0.021, text = "base64 …" } },
--     void = { backward = "402 of 490 rows (82 %) are faster than the device's peak" } }
-- `error` is the mean relative error over held-out folds. `text` holds the base, the small trees, the interval and the
-- range of the samples. With kind = "surface" it holds the points and scales of a surface (ett.profile.surface).
local error_module = require "ett.base.error"
local folders = require "ett.base.folder"
local regressor = require "ett.profile.regressor"
local sampled = require "ett.profile.sampled"
local schema = require "ett.base.schema"
local sealed = require "ett.base.sealed"
local table_at = require "ett.base.table_at"

local coefficients = {}

coefficients.format = "ett coefficients 1"

local function files_of(folder) return folders.names(folder, "%.coefficients%.lua$") end

-- Coefficient files in use by a profile in memory, by path: { changed (seconds; nil: not certain), value, models
-- (regressors by name), wanted (fields as the path states them) }. An unchanged file is not read again.
local known_files = setmetatable({}, { __mode = "v" })

-- Reads one file as text (no bytecode) in an empty environment.
local function read(path)
  local known, changed = known_files[path], require("lfs").attributes(path, "change")
  if known and changed and known.changed == changed then return known end
  -- A file that changed just now may change again within the same second.
  changed = changed and changed < os.time() - 2 and changed or nil
  local value, own = sealed.load(path)
  if type(value) ~= "table" or value.format ~= coefficients.format or type(value.models) ~= "table" then
    error_module.raise("format", "%s: not a coefficient file of this version of ett%s", path,
      value == nil and (": " .. own) or "")
  end
  if not own then sealed.check(path, path) end
  local pool, dtype = path:match "^.*/(.*)%.(%w+)%.coefficients%.lua$"
  known = { changed = changed, value = value, models = {}, wanted = { pool = pool, dtype = dtype } }
  known_files[path] = known
  return known
end

local function refuse_field(path, value, field, wanted)
  error_module.raise("format", "%s: its field '%s' is '%s'; expected '%s'", path, field, tostring(value[field]), wanted)
end

-- Reads a file of the folder. Its contents must agree with its name, and its device with the device of the other files.
local function load_file(self, path)
  local file = self.read[path]
  if file then return file end
  file = read(path)
  local value, wanted = file.value, file.wanted
  if value.pool ~= wanted.pool then refuse_field(path, value, "pool", wanted.pool) end
  if value.dtype ~= wanted.dtype then refuse_field(path, value, "dtype", wanted.dtype) end
  if value.device ~= (self.gpu or value.device) then refuse_field(path, value, "device", self.gpu) end
  self.read[path] = file
  return file
end

-- The name of a file without its ending -> pool and data type; false: it has none. Profiles of one cluster repeat them.
local pool_of = setmetatable({}, { __index = function(known, name)
  local pool, dtype = name:match "^(.+)%.(%w+)%.coefficients%.lua$"
  known[name] = pool and pool .. " " .. dtype or false
  return known[name]
end })

local Coefficients = { __name = "ett.coefficients" }

--- A profile (ett.profile) over a folder of coefficient files; nil if there are none. Each file is read at its first
--- use.
---@return ett.Profile|nil
function coefficients.open(folder, options)
  local names = files_of(folder)
  if #names == 0 then return nil end
  local self = setmetatable({ folder = folder, options = options or {}, pools = {},
    outliers = {}, read = {}, topologies = {}, source = folder }, Coefficients)
  for _, name in ipairs(names) do
    local pool = pool_of[name]
    if pool then self.pools[pool] = folder .. "/" .. name end
  end
  local first = schema.keys(self.pools)[1] -- all files of a folder belong to one device
  self.gpu = first and load_file(self, self.pools[first]).value.device
  return self
end

-- Inherits all other methods from the sample profile.
Coefficients.__index = setmetatable(Coefficients, { __index = sampled.Profile })

--- A partial rotation counts as a whole one. The bundled samples are of GPT-NeoX, which copies whole heads after a
--- partial rotation (torch.cat in ParallelSelfAttention.forward). The samples do not include that copy.
Coefficients.whole_heads = true

function Coefficients:__tostring() return ("profile of coefficients in %s"):format(self.folder) end

-- The sorted names of the models of a file by their topology, "_nodes_gpus", and the reasons of void ones.
local function names_by_topology(file)
  local models, voids = {}, {}
  for _, name in ipairs(schema.keys(file.value.models)) do
    local ending = name:match "_%d+_%d+$"
    if ending then table.insert(table_at(models, ending), name) end
  end
  for name, reason in pairs(type(file.value.void) == "table" and file.value.void or {}) do
    local ending = name:match "_%d+_%d+$"
    if ending then voids[ending] = reason end
  end
  return models, voids
end

local function load_model(self, path, name)
  local file = load_file(self, path)
  local known = file.models[name]
  if known then return known end
  local one, void = file.value.models[name], file.value.void
  if not one then return false, type(void) == "table" and void[name] or nil end
  local model, err
  local text = type(one) == "table" and one.text
  if type(text) == "string" and one.kind == "surface" then
    model, err = require("ett.profile.surface").from_text(text:gsub("\n", ""), path)
  else
    model, err = regressor.from_text(text)
  end
  if not model then error_module.raise("format", "%s: %s: %s", path, name, err.message) end
  file.models[name] = model
  return model
end

function Coefficients:model(_, path, pass) return load_model(self, path, pass) end

function Coefficients:collective_models(kind, dtype, nodes, gpus)
  local ending = ("_%d_%d"):format(nodes, gpus)
  local id = kind .. " " .. dtype .. ending
  local known = self.topologies[id]
  if known then return known end
  local path, found = self.pools[kind .. " " .. dtype], {}
  local file = path and load_file(self, path)
  if file then
    if not file.by_topology then file.by_topology, file.voids = names_by_topology(file) end
    for i, name in ipairs(file.by_topology[ending] or {}) do found[i] = load_model(self, path, name) end
    found.void = file.voids[ending]
  end
  self.topologies[id] = found -- only if no model is damaged
  return found
end

-- Provenance: "calibrated" inside the range of the samples.
function Coefficients.origin(provenance) return provenance == "extrapolated" and provenance or "calibrated" end

return coefficients

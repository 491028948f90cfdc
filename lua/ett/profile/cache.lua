--- The cache of fitted models: $XDG_CACHE_HOME/ett/models, else ~/.cache/ett/models.
--
-- A model's name is the hash of its sources: the bytes of the sample files, the code that turns rows into dimensions,
-- the versions of the regressor. So it is never stale. Files are written whole or not at all: processes may write the
-- same one at once. A model that cannot be read is fitted again; one that cannot be written is reported once.
local dialect = require "ett.operator.dialect"
local files = require "ett.io"
local regressor = require "ett.profile.regressor"
local regressor_surface = require "ett.profile.surface"

local cache = {}

--- Called with a sentence when the cache cannot be written; the command line sets it.
cache.warn = function() end

local warned = false
local code_hash

-- The hash of the code between a sample file and the regressor, dialects included.
local function code()
  if code_hash then return code_hash end
  local pieces = { regressor.version, regressor_surface.version, "with the rows dropped" }
  for _, name in ipairs { "ett.profile.samples", "ett.samples.table", "ett.profile.regressor", "ett.profile.surface",
    "ett.profile.physics", "ett.profile.fit", "ett.operator.dialect", "ett.operator.gemm", "ett.operator.memory",
    "ett.operator.norm", "ett.operator.optimizer", "ett.operator.scores", "ett.operator.shapes" } do
    pieces[#pieces + 1] = assert(files.hash_file(assert(package.searchpath(name, package.path))))
  end
  for _, one in ipairs(dialect.list()) do pieces[#pieces + 1] = assert(files.hash_file(one.path)) end
  code_hash = files.hash(table.unpack(pieces))
  return code_hash
end

local file_hashes = {}

local function hash_of(path)
  if not file_hashes[path] then
    local hash, err = files.hash_file(path)
    if not hash then error(err, 0) end
    file_hashes[path] = hash
  end
  return file_hashes[path]
end

--- The name of a model.
---@param paths string[] sample files, in the order of their rows
---@param entries table[]|nil entries whose operators' files count too
function cache.key(paths, entries, ...)
  local pieces = { code() }
  for _, path in ipairs(paths) do pieces[#pieces + 1] = hash_of(path) end
  for _, entry in ipairs(entries or {}) do
    if entry.operator and entry.operator.path then pieces[#pieces + 1] = hash_of(entry.operator.path) end
  end
  for i = 1, select("#", ...) do pieces[#pieces + 1] = tostring((select(i, ...))) end
  return files.hash(table.unpack(pieces))
end

--- The cache's folder, or nil when there is neither $XDG_CACHE_HOME nor $HOME.
function cache.folder()
  local base = os.getenv("XDG_CACHE_HOME")
  if not base or base:sub(1, 1) ~= "/" then
    local home = os.getenv("HOME")
    base = home and home ~= "" and home .. "/.cache" or nil
  end
  return base and base .. "/ett/models"
end

--- A cached model, or nil.
---@return ett.Regressor|ett.RegressorSurface|nil
function cache.load(key)
  local folder = cache.folder()
  if not folder then return nil end
  return (regressor.load(folder .. "/" .. key .. ".ett"))
    or (regressor_surface.load(folder .. "/" .. key .. ".surface"))
end

--- The kept report of a void pass: { { row = 0, reason =, path =, void = true } }, or nil.
function cache.load_void(key)
  local folder = cache.folder()
  local kept = folder and require("ett.json").read(folder .. "/" .. key .. ".void.json")
  return type(kept) == "table" and type(kept[1]) == "table" and type(kept[1].reason) == "string" and kept or nil
end

--- The rows that were dropped when a cached model was fitted; nil: none.
function cache.load_outliers(key)
  local folder = cache.folder()
  local path = folder and folder .. "/" .. key .. ".dropped.json"
  if not path or not require("lfs").attributes(path) then return nil end
  return (require("ett.json").read(path))
end

-- Makes the folder and lets `write(folder)` write into it; a failure is a warning, once.
local function keep(write)
  local folder = cache.folder()
  local ok, err = folder, nil
  if folder then
    ok, err = files.make_folder(folder)
    if ok then ok, err = write(folder) end
  end
  if not ok and not warned then
    warned = true
    local why = err and tostring(err) or "neither XDG_CACHE_HOME nor HOME is set"
    cache.warn("fitted models are not kept: " .. why)
  end
end

local function write_rows(path, rows)
  local json = require "ett.json"
  return files.write(path, json.encode(json.array(rows)))
end

--- Writes a model, and beside it the rows that its fit dropped; a failure is a warning.
function cache.save(key, model, outliers)
  keep(function(folder)
    if #outliers > 0 then
      local ok, err = write_rows(folder .. "/" .. key .. ".dropped.json", outliers)
      if not ok then return ok, err end
    end
    return model:save(folder .. "/" .. key .. (model:facts().kind == "surface" and ".surface" or ".ett"))
  end)
end

--- Writes that a pass is void, so that the next process need not read its samples.
function cache.save_void(key, rows)
  keep(function(folder) return write_rows(folder .. "/" .. key .. ".void.json", rows) end)
end

return cache

--- The cache of fitted models: $XDG_CACHE_HOME/ett/models, else ~/.cache/ett/models.
--
-- A model's name is the hash of everything that it was made from: the bytes of the sample
-- files, the code that turns rows into dimensions, the regressor's version and the library's.
-- So it is never stale, and processes may write the same one at once: files are written whole
-- or not at all. What cannot be read is fitted anew; what cannot be written is said once.
local files = require "ett.io"
local regressor = require "ett.regressor"

local cache = {}

--- Called with a sentence when the cache cannot be written; the command line sets it.
cache.warn = function() end

local code_hash

-- The code between a sample file and the regressor.
local function code()
  if code_hash then return code_hash end
  local pieces = { regressor.version, "with the rows dropped" }
  for _, name in ipairs { "ett.samples", "ett.regressor", "ett.operator.gemm", "ett.operator.memory",
    "ett.operator.optimizer", "ett.operator.shapes" } do
    local path = package.searchpath(name, package.path)
    pieces[#pieces + 1] = path and files.hash_file(path) or name
  end
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
---@return ett.Regressor|nil
function cache.load(key)
  local folder = cache.folder()
  if not folder then return nil end
  return (regressor.load(folder .. "/" .. key .. ".ett"))
end

--- The rows that were dropped when a cached model was fitted; nil: none.
function cache.load_outliers(key)
  local folder = cache.folder()
  local path = folder and folder .. "/" .. key .. ".dropped.json"
  if not path or not require("lfs").attributes(path) then return nil end
  return (require("ett.json").read(path))
end

local warned = false

--- Writes a model, and beside it the rows that its fit dropped; a failure is a warning.
function cache.save(key, model, outliers)
  local folder = cache.folder()
  local ok, err = folder, nil
  if folder then
    ok, err = files.make_folder(folder)
    if ok and #outliers > 0 then
      local json = require "ett.json"
      ok, err = files.write(folder .. "/" .. key .. ".dropped.json", json.encode(json.array(outliers)))
    end
    if ok then ok, err = model:save(folder .. "/" .. key .. ".ett") end
  end
  if not ok and not warned then
    warned = true
    local why = err and tostring(err) or "neither XDG_CACHE_HOME nor HOME is set"
    cache.warn("fitted models are not kept: " .. why)
  end
end

return cache

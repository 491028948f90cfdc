--- The cache of fitted models: $XDG_CACHE_HOME/ett/models, else ~/.cache/ett/models.
--
-- The file name of a model is the hash of all inputs of the fit: the bytes of the sample files, the code that turns
-- rows into dimensions, and the version of the regressor. For a user's operator, the code is its file and the modules
-- that it names in `require "…"`. The hash misses modules with computed names, and files that the operator reads. Each
-- file holds its key: texts in the first line, models in the last, so that their numbers stay aligned. Files are
-- written atomically, so several processes may write the same file. An unreadable model is fitted again; a model that
-- cannot be written is reported once.
local dialect = require "ett.operator.dialect"
local files = require "ett.io"
local find = require "ett.base.find"
local regressor = require "ett.profile.regressor"
local regressor_surface = require "ett.profile.surface"
local schema = require "ett.base.schema"

local cache = {}

--- Called with a message when the cache cannot be written; the command line sets this function.
cache.warn = function() end

local warned = false
local code_hash

-- The hash of the code and the facts that turn a sample file into inputs of the regressor: these include dialects, and
-- devices, whose rates bound the rows.
local function code()
  if code_hash then return code_hash end
  local pieces = { regressor.version, regressor_surface.version, "with the rows dropped" }
  for _, name in ipairs { "ett.profile.samples", "ett.samples.table", "ett.profile.regressor", "ett.profile.surface",
    "ett.profile.physics", "ett.profile.fit", "ett.profile.device", "ett.base.schema", "ett.operator",
    "ett.operator.attention", "ett.operator.collective", "ett.operator.dialect", "ett.operator.gemm",
    "ett.operator.memory", "ett.operator.mixer", "ett.operator.norm", "ett.operator.optimizer", "ett.operator.scores",
    "ett.operator.shapes" } do
    pieces[#pieces + 1] = assert(files.hash_file(assert(package.searchpath(name, package.path))))
  end
  for _, one in ipairs(dialect.list()) do pieces[#pieces + 1] = assert(files.hash_file(one.path)) end
  for _, one in ipairs(find.list "clusters/devices") do pieces[#pieces + 1] = assert(files.hash_file(one.path)) end
  code_hash = files.hash(table.unpack(pieces))
  return code_hash
end

--- The hash of a file; raises if it cannot be read. Files may change while a process runs, so hashes are not kept.
function cache.hash_of(path)
  local hash, err = files.hash_file(path)
  if not hash then error(err, 0) end
  return hash
end

--- Adds the hash of a Lua file, and of all modules that it requires, directly or not, except ett's own. seen: paths
--- whose hashes are added already.
function cache.add_sources(pieces, path, seen)
  if seen[path] then return end
  seen[path] = true
  local text, err = files.read(path)
  if not text then error(err, 0) end
  pieces[#pieces + 1] = files.hash(text)
  local at = text:find("require", 1, true) -- a pattern that is tried at every byte takes longer than all else here
  while at do
    local name = text:match("^require%s*%(?%s*[\"']([%w_.%-]+)[\"']", at)
    local module = name and not name:find "^ett%." and package.searchpath(name, package.path)
    if module then cache.add_sources(pieces, module, seen) end
    at = text:find("require", at + 1, true)
  end
end

--- The cache key of a model.
---@param paths string[] sample files, in the order of their rows
---@param entries table[]|nil entries whose operator files, and the modules that these name, are hashed too
function cache.key(paths, entries, ...)
  local pieces = { code() }
  for _, path in ipairs(paths) do pieces[#pieces + 1] = cache.hash_of(path) end
  local seen = {}
  for _, entry in ipairs(entries or {}) do
    if entry.operator and entry.operator.path then cache.add_sources(pieces, entry.operator.path, seen) end
  end
  for i = 1, select("#", ...) do pieces[#pieces + 1] = tostring((select(i, ...))) end
  return files.hash(table.unpack(pieces))
end

--- The path of the cache folder; nil if neither $XDG_CACHE_HOME nor $HOME is set.
function cache.folder()
  local base = os.getenv("XDG_CACHE_HOME")
  if not base or base:sub(1, 1) ~= "/" then
    local home = os.getenv("HOME")
    base = home and home ~= "" and home .. "/.cache" or nil
  end
  return base and base .. "/ett/models"
end

-- First or last line of a cache file. A file renamed to another key is not used.
local function heading(key) return ("ett cache %s\n"):format(key) end

local function path_of(key, ending)
  local folder = cache.folder()
  return folder and ("%s/%s.%s"):format(folder, key, ending)
end

-- The text stored under a key, or nil.
local function read(key, ending)
  local path = path_of(key, ending)
  local text = path and files.read(path)
  local head = heading(key)
  return text and text:sub(1, #head) == head and text:sub(#head + 1) or nil
end

local row_fields = { row = "natural", seconds = "number", reason = "string", path = "string?", line = "natural?",
  void = "boolean?" }

-- The rows stored under a key; nil if there are none, or if one lacks a field that its readers need.
local function read_rows(key, ending)
  local text = read(key, ending)
  local rows = text and require("ett.json").decode(text, { name = key })
  if type(rows) ~= "table" then return nil end
  for _, row in pairs(rows) do
    if not pcall(schema.check, row, row_fields, key) then return nil end
  end
  return rows
end

--- A cached model, or nil.
---@return ett.Regressor|ett.RegressorSurface|nil
function cache.load(key)
  local path = path_of(key, "ett")
  local model = path and regressor.load(path, heading(key))
  if model then return model end
  local text = read(key, "surface")
  return text and regressor_surface.from_text(text, key) or nil
end

--- The stored report of a void pass: { { row = 0, reason =, path =, void = true } }, or nil.
function cache.load_void(key)
  local kept = read_rows(key, "void")
  return kept and kept[1] and kept or nil
end

--- The rows dropped by the fit of a cached model; nil if the fit dropped none.
function cache.load_outliers(key) return read_rows(key, "dropped") end

-- Writes each { ending, text }; warns once on failure. Only the owner may read the cache.
local function keep(key, texts)
  local folder = cache.folder()
  local ok, err = folder, nil
  if folder then
    ok, err = files.make_folder(folder, true)
    for _, one in ipairs(texts) do
      local text = one[1] == "ett" and one[2] .. heading(key) or heading(key) .. one[2]
      if ok then ok, err = files.write(("%s/%s.%s"):format(folder, key, one[1]), text, "private") end
    end
  end
  if not ok and not warned then
    warned = true
    local why = err and tostring(err) or "neither XDG_CACHE_HOME nor HOME is set"
    cache.warn("cannot write fitted models to the cache: " .. why)
  end
end

local function encoded(rows)
  local json = require "ett.json"
  return json.encode(json.array(rows))
end

--- Writes a model and the rows that its fit dropped; warns on failure.
function cache.save(key, model, outliers)
  local texts = {}
  if #outliers > 0 then texts[1] = { "dropped", encoded(outliers) } end
  texts[#texts + 1] = model:facts().kind == "surface" and { "surface", model:text() } or { "ett", model:bytes() }
  keep(key, texts)
end

--- Records that a pass is void. Later processes need not read its samples.
function cache.save_void(key, rows) keep(key, { { "void", encoded(rows) } }) end

return cache

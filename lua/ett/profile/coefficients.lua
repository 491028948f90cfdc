--- Coefficient files: small calibrated regressors that a cluster carries with it, so that a
--- fresh machine predicts without samples.
--
-- A folder holds one Lua file per pool of operators, and one per kind of collective:
--   return { format = "ett coefficients 1", pool = "gemm", dtype = "fp16", source = "…",
--     fitted = "2026-11-21", models = { forward = { rows = 7000, error = 0.021, text = "base64 …" } },
--     void = { backward = "402 of 490 rows (82 %) are faster than the device's peak" } }
-- `error` is the mean relative error of held-out folds. The text holds the analytic base, small
-- trees, the interval and the range of the samples; with kind = "surface" the points and scales of
-- the surface that serves small CPU tables: a file serves what a profile of its samples would.
local error_module = require "ett.base.error"
local files = require "ett.io"
local json = require "ett.json"
local profile_fit = require "ett.profile.fit"
local regressor = require "ett.profile.regressor"
local regressor_surface = require "ett.profile.surface"
local schema = require "ett.base.schema"

local coefficients = {}

coefficients.format = "ett coefficients 1"

local function files_of(folder)
  local lfs, list = require "lfs", {}
  if lfs.attributes(folder, "mode") ~= "directory" then return list end
  for entry in lfs.dir(folder) do
    if entry:match("%.coefficients%.lua$") then list[#list + 1] = entry end
  end
  table.sort(list)
  return list
end

--- Whether a folder holds coefficient files.
function coefficients.find(folder) return #files_of(folder) > 0 end

local function file_name(pool, dtype) return ("%s.%s.coefficients.lua"):format(pool, dtype) end

-- Reads one file in an empty environment, text only.
local function read(path)
  local text, err = files.read(path, 16 << 20)
  if not text then error(err, 0) end
  local chunk, why = load(text, "@" .. path, "t", {})
  local ok, value
  if chunk then ok, value = pcall(chunk) end
  if not ok or type(value) ~= "table" or value.format ~= coefficients.format or type(value.models) ~= "table" then
    error_module.raise("format", "%s: not a coefficient file of this version of ett%s", path,
      why and (": " .. why) or "")
  end
  return value
end

local Coefficients = { __name = "ett.coefficients" }

--- A profile (ett.profile) over a folder of coefficient files; each is read when asked for.
---@return ett.Profile
function coefficients.open(folder, options)
  local self = setmetatable({ folder = folder, options = options or {}, pools = {}, models = {}, voids = {},
    outliers = {}, read = {}, topologies = {}, source = folder }, Coefficients)
  for _, name in ipairs(files_of(folder)) do
    local pool, dtype = name:match("^(.+)%.(%w+)%.coefficients%.lua$")
    if pool then self.pools[pool .. " " .. dtype] = folder .. "/" .. name end
  end
  return self
end

-- What is not here is a sample profile's.
function Coefficients.__index(_, name)
  return rawget(Coefficients, name) or require("ett.profile").Profile[name]
end

function Coefficients:__tostring() return ("profile of coefficients in %s"):format(self.folder) end

local function load_model(self, path, name)
  local id = path .. " " .. name
  local known = self.models[id]
  if known ~= nil then return known, self.voids[id] end
  local file = self.read[path] or read(path)
  self.read[path] = file
  local one = file.models[name]
  if not one then
    self.models[id], self.voids[id] = false, type(file.void) == "table" and file.void[name] or nil
    return false, self.voids[id]
  end
  local model, err
  if one.kind == "surface" then
    model, err = regressor_surface.from_text(one.text:gsub("\n", ""), path)
  else
    model, err = regressor.from_text(one.text)
  end
  if not model then error_module.raise("format", "%s: %s: %s", path, name, err.message) end
  self.models[id] = model
  return model
end

function Coefficients:model(_, path, pass) return load_model(self, path, pass) end

function Coefficients:collective_models(kind, dtype, nodes, gpus)
  local id = ("%s %s %d_%d"):format(kind, dtype, nodes, gpus)
  local known = self.topologies[id]
  if known then return known end
  local path, found = self.pools[kind .. " " .. dtype], {}
  self.topologies[id] = found
  if not path then return found end
  local file = self.read[path] or read(path)
  self.read[path] = file
  for _, name in ipairs(schema.keys(file.models)) do
    if name:match("_(%d+_%d+)$") == nodes .. "_" .. gpus then found[#found + 1] = load_model(self, path, name) end
  end
  for _, name in ipairs(schema.keys(type(file.void) == "table" and file.void or {})) do
    if name:match("_(%d+_%d+)$") == nodes .. "_" .. gpus then found.void = file.void[name] end
  end
  return found
end

-- Inside the range a coefficient file's answer is calibrated, whatever the fit called it.
function Coefficients.answer(_, predicted, detail)
  local out = require("ett.profile").answer(predicted, detail)
  if out.provenance ~= "extrapolated" then out.provenance = "calibrated" end
  return out
end

local function wrapped(text)
  return (text:gsub(("."):rep(112), "%0\n"))
end

local function serialise(file)
  local out = { "-- Made by `ett calibrate`; see lua/ett/profile/coefficients.lua. Not written by hand.", "return {" }
  local function line(format, ...) out[#out + 1] = format:format(...) end
  line("  format = %q, pool = %q, dtype = %q,", coefficients.format, file.pool, file.dtype)
  line("  source = %q,", file.source)
  line("  fitted = %q, device = %q,", file.fitted, file.device)
  line("  models = {")
  for _, name in ipairs(schema.keys(file.models)) do
    local m = file.models[name]
    line("    [%q] = { rows = %d, dropped = %d, error = %.4f, error_median = %.4f,%s text = [=[", name, m.rows,
      m.dropped, m.error, m.error_median, m.kind == "surface" and ' kind = "surface",' or "")
    line("%s]=] },", wrapped(m.text))
  end
  line("  },")
  if next(file.void) then
    line("  void = {")
    for _, name in ipairs(schema.keys(file.void)) do line("    [%q] = %q,", name, file.void[name].reason) end
    line("  },")
  end
  line("}")
  return table.concat(out, "\n") .. "\n"
end

-- Fits one pass into `file`: a small regressor, or the surface where a profile serves one, or why it is void.
local function calibrate(file, name, data, threads)
  if not data then return end
  local choice, why = profile_fit.choose(data)
  if not choice then
    file.faults[name] = { reason = why, rows = #data.seconds }
    return
  end
  if choice.void then
    file.void[name] = { reason = choice.void, rows = #data.seconds, path = data.entry.path }
    return
  end
  data.threads = threads
  local model, outliers = profile_fit.fit(choice, data, { compact = true })
  local facts = model:facts()
  file.models[name] = { rows = facts.rows, dropped = facts.dropped, error = facts.error_mean,
    error_median = facts.error_median, kind = choice.kind, text = model:text(),
    outliers = require("ett.profile").locate(outliers, data.origins) }
end

local function summary_of(file)
  local rows = {}
  local function add(name, fields)
    fields.pool, fields.name = file.pool, name
    for _, row in ipairs(fields.dropped_rows) do row.model = file.pool .. " " .. name end
    fields.dropped_rows = json.array(fields.dropped_rows)
    rows[#rows + 1] = fields
  end
  for _, name in ipairs(schema.keys(file.models)) do
    local m = file.models[name]
    add(name, { rows = m.rows, dropped = m.dropped, error = m.error, bytes = #m.text, dropped_rows = m.outliers })
  end
  for _, name in ipairs(schema.keys(file.void)) do
    local v = file.void[name]
    add(name, { rows = v.rows, dropped = v.rows, bytes = 0, fault = "void: " .. v.reason,
      dropped_rows = { { row = 0, seconds = 0.0, reason = v.reason, path = v.path, void = true } } })
  end
  for _, name in ipairs(schema.keys(file.faults)) do
    add(name, { rows = file.faults[name].rows, dropped = 0, bytes = 0, fault = file.faults[name].reason,
      dropped_rows = {} })
  end
  return rows
end

--- Fits a small regressor of every pool of a sample profile, then writes coefficient files: none where nothing
--- could be fitted. A fault or an interrupt leaves the folder as it was.
---@param profile table ett.profile.from_samples
---@param folder string is made
---@param about table { source=, fitted= (date), threads= }
---@return table[] summary { pool, name, rows, dropped, dropped_rows, error?, bytes, fault? (why there is no model) }
function coefficients.export(profile, folder, about)
  local made, summary = {}, {}
  local function finish(file)
    if next(file.models) or next(file.void) then made[#made + 1] = file end
    local rows = summary_of(file)
    table.move(rows, 1, #rows, #summary + 1, summary)
  end
  local function new(key)
    local pool, dtype = key:match("^(.+) (%w+)$")
    return { pool = pool, dtype = dtype, source = about.source, fitted = about.fitted, device = profile.gpu,
      models = {}, void = {}, faults = {} }
  end
  for _, key in ipairs(schema.keys(profile.pools)) do
    local file, entries = new(key), profile.pools[key]
    for _, pass in ipairs { "forward", "backward", "update" } do
      calibrate(file, pass, profile:data(entries, pass), about.threads)
    end
    finish(file)
  end
  for _, key in ipairs(schema.keys(profile.collectives)) do
    local file = new(key)
    for _, one in ipairs(profile:topologies(key)) do
      calibrate(file, one.name, profile:data(one.entries, "collective", one.group), about.threads)
    end
    finish(file)
  end
  if #made == 0 then
    error_module.raise("format", "%s: nothing to calibrate: %s %s", profile.source, summary[1].name, summary[1].fault)
  end
  local ok, err = files.make_folder(folder)
  if not ok then error(err, 0) end
  for _, file in ipairs(made) do
    ok, err = files.write(folder .. "/" .. file_name(file.pool, file.dtype), serialise(file))
    if not ok then error(err, 0) end
  end
  return summary
end

return coefficients

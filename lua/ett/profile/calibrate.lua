--- Calibration: fits small coefficient files for a cluster to folders of samples (ett.coefficients reads the files).
--
--   calibrate.run { folders = { "…/operator", "…/nccl" }, into = "clusters/mine/profile", source = "…" }
--
-- A machine without the samples predicts from these files. Each file holds its source, the date of the fit and its
-- held-out error.
local coefficients = require "ett.profile.coefficients"
local error_module = require "ett.base.error"
local folders = require "ett.base.folder"
local json = require "ett.json"
local lfs = require "lfs"
local physics = require "ett.profile.physics"
local profile_fit = require "ett.profile.fit"
local sampled = require "ett.profile.sampled"
local schema = require "ett.base.schema"
local sealed = require "ett.base.sealed"

local calibrate = {}

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
    line("%s]=] },", sealed.wrapped(m.text))
  end
  line("  },")
  if next(file.void) then
    line("  void = {")
    for _, name in ipairs(schema.keys(file.void)) do line("    [%q] = %q,", name, file.void[name].reason) end
    line("  },")
  end
  line("}")
  return sealed.text(table.concat(out, "\n") .. "\n")
end

-- Fits one pass and adds the result to `file`: a small regressor, a surface, or the reason why the pass is void.
local function fit_one(file, name, data, threads)
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
    outliers = sampled.locate(outliers, data.origins) }
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

--- Fits a small regressor to every pool of a sample profile, then writes the coefficient files. The folder is unchanged
--- after an error or an interrupt.
---@param profile table ett.profile.sampled
---@param folder string created if missing
---@param about table { source=, fitted= (date), threads= }
---@return table[] summary { pool, name, rows, dropped, dropped_rows, error?, bytes, fault? (why there is no model) }
function calibrate.export(profile, folder, about)
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
      fit_one(file, pass, profile:data(entries, pass), about.threads)
    end
    finish(file)
  end
  for _, key in ipairs(schema.keys(profile.collectives)) do
    local file = new(key)
    for _, one in ipairs(profile:topologies(key)) do
      fit_one(file, one.name, profile:data(one.entries, "collective", one.group), about.threads)
    end
    finish(file)
  end
  if #made == 0 then
    error_module.raise("format", "%s: nothing to calibrate: %s %s", profile.source, summary[1].name, summary[1].fault)
  end
  for _, file in ipairs(made) do
    folders.write_in(folder, ("%s.%s.coefficients.lua"):format(file.pool, file.dtype), serialise(file))
  end
  return summary
end

--- Fits and writes coefficient files; returns the summary of calibrate.export and the profile. Raises on bad arguments.
---@param request table { folders=, into=, source=, fitted=?, cluster=?, accept_device=? }
function calibrate.run(request)
  if not request.folders or #request.folders == 0 then
    error_module.raise("usage", "calibrate: give at least one folder of samples")
  end
  for _, folder in ipairs(request.folders) do
    if lfs.attributes(folder, "mode") ~= "directory" then
      error_module.raise("io", "calibrate: '%s' is not a folder", folder)
    end
  end
  if not request.source or request.source == "" then
    error_module.raise("usage", "calibrate: --source is missing; say where the samples come from")
  end
  local cluster = request.cluster
  local options = cluster and { multiprocessors = cluster.device.multiprocessors,
    network = (cluster.links or {}).inter } or {}
  local profile = sampled.open(request.folders, options)
  if request.cluster then
    physics.check_device(profile.gpu, request.cluster, profile.source, request.accept_device)
  end
  local mode = lfs.attributes(request.into, "mode") -- checked before the fits, which may take a minute
  if mode and mode ~= "directory" then
    error_module.raise("io", "calibrate: '%s' is a %s, not a folder to write into", request.into, mode)
  end
  local about = { source = request.source, fitted = request.fitted or os.date "!%Y-%m-%d" }
  return calibrate.export(profile, request.into, about), profile
end

return calibrate

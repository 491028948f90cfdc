--- Chooses the model of a pool of samples and fits it; used by profiles, calibration and the hold-out.
--
--   local choice = profile_fit.choose(data)          -- from all rows
--   local model, outliers = profile_fit.fit(choice, data)  -- from all or some of the rows
--
-- data: { gpu=, family=, dims=, rows= (flat), seconds=, pass=, entry= (of the first file), group=? "nodes_gpus",
--   multiprocessors=, threads=? }
local merged = require "ett.base.merged"
local physics = require "ett.profile.physics"
local regressor = require "ett.profile.regressor"
local regressor_surface = require "ett.profile.surface"

local profile_fit = {}

--- A pool with fewer different shapes gets no model. Repeats of a shape say nothing about others.
profile_fit.least_shapes = 8

--- The size of a pool with too few shapes for a model, as text: "3 shapes (10 rows)"; nil if it has enough.
---@return string?
function profile_fit.shortage(data)
  local seen, shapes, rows = {}, 0, #data.seconds
  for i = 1, rows do
    local shape = table.concat(data.rows, " ", (i - 1) * data.dims + 1, i * data.dims)
    if not seen[shape] then
      seen[shape], shapes = true, shapes + 1
      if shapes == profile_fit.least_shapes then return nil end
    end
  end
  return ("%d shape%s%s"):format(shapes, shapes == 1 and "" or "s", rows > shapes and (" (%d rows)"):format(rows) or "")
end

--- The choice for a pool: { kind = "surface" | "regressor", void = reason? }, or nil and why there is no model.
---@return table|nil, string?
function profile_fit.choose(data)
  local lacking = profile_fit.shortage(data)
  if lacking then
    return nil, ("%s; at least %d are needed: measure more shapes"):format(lacking, profile_fit.least_shapes)
  end
  local surface = #data.seconds <= regressor_surface.most_rows and regressor_surface.suits(data.entry.path)
  return { kind = surface and "surface" or "regressor", void = physics.void(data) }
end

-- The arguments of ett.profile.regressor for a choice of that kind.
local function regressor_of(choice, data, fields)
  local least
  if not choice.void and not choice.unbound then least = physics.least_seconds(data) end
  return merged({ least_seconds = least, family = data.family, dims = data.dims,
    backward = data.pass == "backward", multiprocessors = data.multiprocessors, rows = data.rows,
    seconds = data.seconds, threads = data.threads }, fields)
end

--- Fits the chosen model; a void pass is fitted without the physical bound. Dropped rows are returned as
--- { row, seconds, reason }.
---@param fields table? more fields for ett.regressor.fit
---@return table model, table[] outliers
function profile_fit.fit(choice, data, fields)
  if choice.kind == "surface" then
    return regressor_surface.fit { family = data.family, dims = data.dims, rows = data.rows, seconds = data.seconds,
      disturbed = data.disturbed }
  end
  return regressor.fit(regressor_of(choice, data, fields))
end

--- Fits a pool, and its other pass at the same time if both models are regressors.
---@param own table { choice =, data = }
---@param other table? the same of the other pass
---@return table model, table[] outliers, table|nil other model, table[]|nil other outliers; nil: not fitted
function profile_fit.fit_with(own, other)
  if not other or own.choice.kind == "surface" or other.choice.kind == "surface" then
    return profile_fit.fit(own.choice, own.data)
  end
  local found = regressor.fit_all { regressor_of(own.choice, own.data), regressor_of(other.choice, other.data) }
  if not found[1][1] then error(found[1][2], 0) end
  return found[1][1], found[1][2], found[2][1], found[2][2]
end

return profile_fit

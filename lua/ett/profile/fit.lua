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

--- A pool with fewer rows gets no model.
profile_fit.least_rows = 8

-- Whether the rows hold several shapes. The held-out error of a surface needs at least two.
local function several_kernels(data)
  for i = data.dims + 1, #data.rows do if data.rows[i] ~= data.rows[i - data.dims] then return true end end
  return false
end

--- The choice for a pool: { kind = "surface" | "regressor", void = reason? }, or nil and why there is no model.
---@return table|nil, string?
function profile_fit.choose(data)
  if #data.seconds < profile_fit.least_rows then
    return nil, ("%d row%s; at least %d are needed: measure more shapes"):format(#data.seconds,
      #data.seconds == 1 and "" or "s", profile_fit.least_rows)
  end
  local surface = #data.seconds <= regressor_surface.most_rows and several_kernels(data)
    and regressor_surface.suits(data.entry.path)
  return { kind = surface and "surface" or "regressor", void = physics.void(data) }
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
  local least
  if not choice.void and not choice.unbound then least = physics.least_seconds(data) end
  return regressor.fit(merged({ least_seconds = least, family = data.family, dims = data.dims,
    backward = data.pass == "backward", multiprocessors = data.multiprocessors, rows = data.rows,
    seconds = data.seconds, threads = data.threads }, fields))
end

return profile_fit

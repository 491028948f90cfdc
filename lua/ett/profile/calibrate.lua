--- Calibration: small coefficient files for a cluster, from folders of samples.
--
--   calibrate.run { folders = { "…/operator", "…/nccl" }, into = "clusters/mine/profile", source = "…" }
--
-- What is written lets a fresh machine predict without the samples (ett.coefficients); each file
-- carries its source, the date of the fit and its held-out error.
local error_module = require "ett.base.error"

local calibrate = {}

--- Fits and writes; returns ett.coefficients' summary: one entry per model.
---@param request table { folders=, into=, source=, fitted=?, cluster=? }
function calibrate.run(request)
  local lfs = require "lfs"
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
  local options = { multiprocessors = request.cluster and request.cluster.device.multiprocessors }
  local profile = require("ett.profile").from_samples(request.folders, options)
  local mode = lfs.attributes(request.into, "mode") -- said before the fits, which may take a minute
  if mode and mode ~= "directory" then
    error_module.raise("io", "calibrate: '%s' is a %s, not a folder to write into", request.into, mode)
  end
  return profile:export_coefficients(request.into, { source = request.source,
    fitted = request.fitted or os.date "!%Y-%m-%d" }), profile
end

return calibrate

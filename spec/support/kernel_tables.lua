--- Tables of measured kernels, and held-out errors of kernel models.
local calibrate = require "ett.profile.kernels.calibrate"
local devices = require "ett.profile.device"
local kernels = require "ett.profile.kernels"
local regressor = require "ett.profile.regressor"

local kernel_tables = {}

--- A kernel model of ett, or the fused expert layer, which only benchmarks fit.
local function model_of(name) return name == "moe" and require "moe_kernel" or kernels.get(name) end

local seed = 20261122
kernel_tables.nvidia = { "a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb300", "l40s", "rtx_pro_6000" }

--- The folder of the tables; or nil and the reason why it is missing.
function kernel_tables.folder()
  local root = os.getenv "ETT_REFERENCE" or require("ett.host").root .. "/../shared/reference"
  local folder = root .. "/kernels"
  return require("lfs").attributes(folder, "mode") == "directory" and folder or nil,
    ("no kernel tables at %s; set ETT_REFERENCE"):format(folder)
end

--- The rows, with a seeded fifth of the groups held out.
function kernel_tables.fifth(model, rows) return calibrate.split(model, rows, seed) end

--- Mean error of devices, and a row for each.
---@param split function(model, rows) -> fitted, held
---@param tested function(row)? which of the held-out rows are tested
---@return number error, table[] rows
function kernel_tables.errors(folder, name, dtype, keys, split, tested)
  local model, sum, count, rows = model_of(name), 0.0, 0, {}
  for _, key in ipairs(keys) do
    local device = devices.get(key)
    local all = kernels.read(model, folder, device)
    local chosen = all and device:peak(dtype) and kernels.preferred(model, all, dtype) or {}
    local fitted, held = split(model, chosen)
    local counted = {}
    for _, row in ipairs(held) do
      if not tested or tested(row) then counted[#counted + 1] = row end
    end
    if #counted > 0 then
      local kernel = kernels.fit(model, device, dtype, fitted)
      kernel.trees = assert(regressor.from_text(kernel:text())) -- as coefficient files keep it
      local err, inside = calibrate.error(kernel, counted)
      sum, count = sum + err, count + 1
      rows[count] = { measure = ("    %s, %d rows, %.0f %% inside the interval"):format(key, #counted, 100 * inside),
        value = ("%.2f %%"):format(100 * err) }
    end
  end
  return sum / count, rows
end

return kernel_tables

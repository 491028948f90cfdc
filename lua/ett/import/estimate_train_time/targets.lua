--- Targets in a sampling configuration of estimate-train-time, for `ett samples from-trace`.
--
-- The configuration gives a path of host events for each measured column (ett.trace.samples).
local error_module = require "ett.base.error"

local targets = {}

local fields = { "kernel_name", "columns_name", "targets" }

--- Reads and checks a sampling configuration (YAML).
---@return table { kernel_name =, columns_name =, targets =, shapes = or nil }
function targets.read(path)
  local config = error_module.must(require("ett.yaml").read(path))
  for _, field in ipairs(fields) do
    if type(config) ~= "table" or config[field] == nil then
      error_module.raise("format", "%s: missing field '%s' of a sampling configuration", path, field)
    end
  end
  if not tostring(config.kernel_name):match "^[%w_][%w_%-%.]*$" then -- files are named after it
    error_module.raise("format", "%s: field 'kernel_name' must be a name of letters, digits and _-., got '%s'", path,
      tostring(config.kernel_name))
  end
  if type(config.targets) ~= "table" or type(config.columns_name) ~= "table"
    or #config.targets >= #config.columns_name then
    error_module.raise("format", "%s: field 'targets' must be a list with one path for each measured column of "
      .. "'columns_name'", path)
  end
  return config
end

return targets

--- The library as one table: `local ett = require "ett"`, then ett.model, ett.plan,
--- ett.cluster, ett.estimate, ett.sweep, … Each is the module of that name, loaded when used.
local ett = {}

--- Declares the options of the running script; see ett.script.
function ett.options(declared) return require("ett.script").options(declared) end

return setmetatable(ett, {
  __index = function(self, name)
    if type(name) ~= "string" then return nil end
    local module = "ett." .. name
    if not (package.loaded[module] or package.preload[module] or package.searchpath(module, package.path)
      or package.searchpath(module, package.cpath)) then
      local error_module = require "ett.error"
      error_module.raise("missing", "ett has no module '%s'", name)
    end
    local value = require(module)
    rawset(self, name, value)
    return value
  end,
})

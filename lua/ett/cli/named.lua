--- Calls a function with a name from the command line. If the name is unknown, the command line is wrong: the error has
--- the kind "usage" in place of "missing". Errors inside files have a label and are unchanged.
local error_module = require "ett.base.error"

local function finish(ok, ...)
  if ok then return ... end
  local object = ...
  if object.kind == "missing" and #(object.context or {}) == 0 then object.kind = "usage" end
  error(object, 0)
end

return function(fn, ...) return finish(xpcall(fn, error_module.traced, ...)) end

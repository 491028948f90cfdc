--- Calls a function with a name of the command line. An unknown name is a wrong command line: kind "usage" in place of
--- "missing". Errors in files, which have a label, are unchanged.
local error_module = require "ett.base.error"

local function finish(ok, ...)
  if ok then return ... end
  local object = ...
  if object.kind == "missing" and #(object.context or {}) == 0 then object.kind = "usage" end
  error(object, 0)
end

return function(fn, ...) return finish(xpcall(fn, error_module.traced, ...)) end

--- The globals of a user's Lua file in the sandbox: no files, programs, C modules or bytecode.
--
-- The kernel's restrictions and the filter of the output (runtime/host/sandbox.h) protect the machine. These globals
-- only give clearer errors: modules of ett lead to Lua's real libraries.
local error_module = require "ett.base.error"

--- The functions of a library that restricted files may use.
local kept = { os = { "clock", "date", "difftime", "time" } }

local whole = { "assert", "collectgarbage", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "print",
  "rawequal", "rawget", "rawlen", "rawset", "select", "setmetatable", "tonumber", "tostring", "type", "warn", "xpcall",
  "_VERSION" }

--- Libraries that restricted files get as copies, so that their changes do not affect ett.
local copied = { "coroutine", "math", "string", "table", "utf8" }

local absent = { "io", "debug", "package" }

local function refusal(name)
  return function() error_module.raise("usage", "%s is not available in the sandbox", name) end
end

--- A library of the given functions. Access to others raises an error.
local function library_of(name, functions)
  return setmetatable(functions, { __index = function(_, key) return refusal(("%s.%s"):format(name, key)) end,
    __metatable = false })
end

--- The globals of restricted files.
---@param is_own fun(name: string): boolean whether a module's file is the user's own, so that `require` may load it
---@return table
return function(is_own)
  local globals = {}
  for _, name in ipairs(whole) do globals[name] = _G[name] end
  for _, name in ipairs(copied) do
    globals[name] = {}
    for key, value in pairs(_G[name]) do globals[name][key] = value end
  end
  getmetatable("").__metatable = false
  for _, name in ipairs(absent) do globals[name] = library_of(name, {}) end
  for name, functions in pairs(kept) do
    local library = {}
    for _, key in ipairs(functions) do library[key] = _G[name][key] end
    globals[name] = library_of(name, library)
  end
  globals._G = globals
  function globals.load(chunk, name, _, environment) return load(chunk, name, "t", environment or globals) end
  function globals.loadfile(path, _, environment) return loadfile(path, "t", environment or globals) end
  function globals.dofile(path)
    local chunk, why = loadfile(path, "t", globals)
    if not chunk then error(why, 2) end
    return chunk()
  end
  function globals.require(name)
    if name == "ett" or tostring(name):match "^ett%." or is_own(name) then return require(name) end
    error_module.raise("usage", "require '%s': the sandbox has only modules of ett and those beside the script",
      tostring(name))
  end
  return globals
end

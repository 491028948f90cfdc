--- Makes the standard names fast in specs. busted gives spec files an environment in which every global is looked up
-- through a chain of contexts. A loop over math and ipairs takes several times as long there.
local standard_names = {}

local names = { "coroutine", "debug", "error", "getmetatable", "io", "ipairs", "load", "math", "next", "os", "pairs",
  "pcall", "rawget", "rawset", "require", "select", "setmetatable", "string", "table", "tonumber", "tostring", "type",
  "utf8", "xpcall" }

--- Puts them, and busted's assert, directly into the environment. Call it before busted makes the environment.
function standard_names.install()
  local make = require "busted.environment"
  package.loaded["busted.environment"] = function(context)
    local environment = make(context)
    local own = load "return _ENV"
    environment.wrap(own)
    local env, set = own(), environment.set
    for _, name in ipairs(names) do rawset(env, name, _G[name]) end
    function environment.set(key, value)
      if key == "assert" then rawset(env, key, value) end
      set(key, value)
    end
    return environment
  end
end

return standard_names

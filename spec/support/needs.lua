--- Specs of what may not be built: skipped, saying what to install.
---   local fits = require("needs").fitting(it, pending)
local needs = {}

--- busted's `it` for specs that fit; without XGBoost each is pending, its name followed by the reason.
---@param it function
---@param pending function busted's, as a spec file has them
function needs.fitting(it, pending)
  local part, why = require("ett.regressor").fitting()
  if part then return it end
  return function(name) pending(("%s: %s"):format(name, why)) end
end

--- Whether the CPU back end can be used; without it the file's one spec is pending, with the reason.
---   if not require("needs").cpu("ett sample", _ENV) then return end
---@param what string what the file is about
---@param busted table describe, it and pending, as a spec file has them
function needs.cpu(what, busted)
  local usable, why = require("ett.find").load("samplers", "cpu").available()
  if not usable then
    busted.describe(what, function()
      busted.it("needs the CPU back end", function() busted.pending(why) end)
    end)
  end
  return usable
end

return needs

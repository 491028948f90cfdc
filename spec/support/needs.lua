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

return needs

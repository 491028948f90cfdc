--- Skips specs of optional parts that were not built; the message names the package to install.
---   local fits = require("needs").fitting(it, pending)
local needs = {}

--- busted's `it` for specs that fit; without XGBoost each is pending, with the reason in its name.
---@param it function
---@param pending function busted's, as a spec file has them
function needs.fitting(it, pending)
  local part, why = require("ett.profile.regressor").fitting()
  if part then return it end
  return function(name) pending(("%s: %s"):format(name, why)) end
end

local function unless(usable, why, needed, what, busted)
  if not usable then
    busted.describe(what, function()
      busted.it("needs " .. needed, function() busted.pending(why) end)
    end)
  end
  return usable
end

--- Whether the CPU back end can be used; without it the only spec of the file is pending, with the reason.
---   if not require("needs").cpu("ett sample", _ENV) then return end
---@param what string subject of the file
---@param busted table describe, it and pending, as a spec file has them
function needs.cpu(what, busted)
  local usable, why = require("ett.base.find").load("samplers", "cpu").available()
  return unless(usable, why, "the CPU back end", what, busted)
end

--- Whether ett can be run on several ranks, by MPI and mpirun; as needs.cpu.
function needs.ranks(what, busted)
  local usable, why = require("ett.sampling.mpirun").available()
  return unless(usable, why, "several ranks", what, busted)
end

--- Whether a GPU or its stand-in can be used; else as needs.cpu.
---@param reason string? why there is neither a GPU nor its stand-in
function needs.gpu(reason, what, busted) return unless(not reason, reason, "a GPU or its stand-in", what, busted) end

return needs

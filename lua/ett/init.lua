--- The library as one table: `local ett = require "ett"`, then ett.model, ett.plan,
--- ett.estimate, ett.sweep, … Each is loaded when first used.
local ett = {}

--- The public names: name -> module. Any module `ett.NAME` is reached by its name too.
local public = {
  architecture = "ett.model.architecture",
  calibrate = "ett.profile.calibrate",
  campaign = "ett.sampling.campaign",
  cluster = "ett.profile.cluster",
  coefficients = "ett.profile.coefficients",
  collective = "ett.operator.collective",
  doubles = "ett.operator.doubles",
  error = "ett.base.error",
  estimate = "ett.step.estimate",
  export = "ett.import.export",
  find = "ett.base.find",
  folder = "ett.base.folder",
  holdout = "ett.profile.holdout",
  huggingface = "ett.import.huggingface",
  megatron = "ett.import.megatron",
  pretty = "ett.base.pretty",
  reference = "ett.import.estimate_train_time",
  regressor = "ett.profile.regressor",
  sampler = "ett.sampling.sampler",
  samples = "ett.profile.samples",
  schema = "ett.base.schema",
  search = "ett.search.search",
  share = "ett.base.share",
  submit = "ett.sampling.submit",
  svg = "ett.report.svg",
  sweep = "ett.search.sweep",
}

-- Functions of the table itself: name -> module and its function.
local functions = {
  options = { "ett.cli.script", "options" }, -- declares the options of the running script
}

--- The module behind a public name, or nil.
---@param name string
---@return string?
function ett.module(name)
  local module = public[name] or "ett." .. name
  if package.loaded[module] or package.preload[module] or package.searchpath(module, package.path)
    or package.searchpath(module, package.cpath) then
    return module
  end
  return nil
end

--- Every public name, sorted.
---@return string[]
function ett.names()
  local names = { "options" }
  for name in pairs(public) do names[#names + 1] = name end
  for _, name in ipairs { "csv", "io", "json", "ledger", "model", "operator", "plan", "profile", "report",
    "trace", "validate", "yaml" } do
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

return setmetatable(ett, {
  __index = function(self, name)
    if type(name) ~= "string" then return nil end
    local of = functions[name]
    if of then return require(of[1])[of[2]] end
    local module = ett.module(name)
    if not module then
      local error_module = require "ett.base.error"
      error_module.raise("missing", "ett has no module '%s'%s", name, error_module.suggestion(name, ett.names()))
    end
    local value = require(module)
    rawset(self, name, value)
    return value
  end,
  __tostring = function() return "ett: " .. table.concat(ett.names(), ", ") end,
})

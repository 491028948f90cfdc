--- Entry point for other languages: a function's name and JSON arguments in, JSON out (runtime/host/ett.h).
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local fields = require "ett.cli.fields"
local json = require "ett.json"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"

local functions = {}

--- Removes the named entries from a table of arguments; the rest are plan fields and hyper-parameters.
local function split(function_name, arguments, own)
  local given, rest = {}, {}
  for name, value in pairs(arguments) do (own[name] and given or rest)[name] = value end
  local clean = schema.check(given, own, function_name)
  local plan, hyper = fields.sort(function_name, rest, clean.model)
  return clean, plan, hyper
end

local function cluster_of(given)
  return given.accept_device and require("ett.profile.cluster").accepting(given.cluster) or given.cluster
end

--- One training step. Arguments: `model`, `cluster`, `tokens`, plan fields and hyper-parameters.
function functions.predict(arguments)
  local given, plan, hyper = split("predict", arguments, { model = "string", tokens = "positive?",
    cluster = { "string", default = fields.default_cluster }, accept_device = "boolean?" })
  local e = require("ett.step.estimate").new { model = fields.model_of(given.model, hyper),
    cluster = cluster_of(given), plan = plan, tokens = given.tokens }
  if not arguments.cluster then table.insert(e.left_open, 1, "cluster " .. e.cluster) end
  return e
end

--- Sweeps plan fields and hyper-parameters; `over` holds a list of values for each.
function functions.sweep(arguments)
  local given, plan, hyper = split("sweep", arguments, { model = "string", over = "table", devices = "count?",
    cluster = { "string", default = fields.default_cluster }, objective = "string?", accept_device = "boolean?" })
  local over, hyper_over = fields.sort("sweep", given.over, given.model)
  for name in pairs(hyper_over) do
    if hyper[name] ~= nil then error_module.raise("usage", "sweep: field '%s' is both fixed and swept", name) end
  end
  local several = next(hyper_over) ~= nil
  local function model(own) return fields.model_of(given.model, merged(hyper, own)) end
  return require("ett.search.sweep").new { model = several and model or model {}, hyper = several and hyper_over or nil,
    cluster = cluster_of(given), plan = plan, over = over, devices = given.devices, objective = given.objective }
end

--- The best plan. Arguments: those of ett.search that JSON can state, plan fields and hyper-parameters.
function functions.search(arguments)
  local search = require "ett.search.search"
  local own = merged(search.arguments, { model = "string" })
  for _, name in ipairs { "plan", "journal", "share", "partial", "profile", "times", "progress" } do own[name] = nil end
  local given, plan, hyper = split("search", arguments, own)
  given.model, given.plan = fields.model_of(given.model, hyper), plan
  if not (given.vary and given.vary.cluster) then given.cluster = given.cluster or fields.default_cluster end
  local s = search.new(given)
  if #s.rows == 0 then error_module.raise("limit", "search: %s", s.nothing) end
  return s
end

--- The names of a kind. `kind`: "models", "clusters", "schedules", …
function functions.list(arguments)
  local given = schema.check(arguments, { kind = "string" }, "list")
  if not find.folders[given.kind] then
    error_module.raise("argument", "list: unknown kind '%s'%s", given.kind,
      error_module.suggestion(given.kind, schema.keys(find.folders)))
  end
  local names = {}
  for i, entry in ipairs(require("ett.base.catalog").entries(given.kind)) do names[i] = entry.name end
  return json.array(names)
end

--- Sets the folders of a call's argument `path`, a folder or a list of folders. Files of users' folders are read again
--- in each call, because a notebook may have edited them.
local function set_folders(name, path)
  local list = schema.argument(type(path) == "string" and { path } or path or {}, "list", name, "path")
  for _, folder in ipairs(list) do schema.argument(folder, "string", name, "path") end
  find.set_folders(list)
  if #list > 0 or os.getenv "ETT_PATH" then require("ett.operator").forget() end
end

local function answer(name, text)
  if os.getenv "ETT_SANDBOX" and require("ett.cli.sandbox").asked() then
    error_module.raise("usage", "calls from other languages do not run in the sandbox; unset ETT_SANDBOX if you trust "
      .. "the files")
  end
  local fn = functions[name]
  if not fn then
    error_module.raise("argument", "ett has no function '%s' for other languages; it has %s", name,
      table.concat(schema.keys(functions), ", "))
  end
  local arguments, why = json.decode(text)
  if type(arguments) ~= "table" then error_module.raise("argument", "%s: %s", name, why or "expected an object") end
  set_folders(name, arguments.path)
  arguments.path = nil
  return { value = fn(arguments) }
end

--- Calls a function by name. Never raises.
---@param text string a JSON object
---@return string { "value": … } or { "error": { "kind", "message" } }
return function(name, text)
  local ok, result = pcall(answer, name, text)
  if ok then
    local encoded, why = json.encode(result)
    if encoded then return encoded end
    result = why
  end
  local object = error_module.from(result)
  return json.encode { error = { kind = object.kind or "internal", message = tostring(object) } }
end

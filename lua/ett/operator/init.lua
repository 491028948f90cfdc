--- Operators: found by file name, checked once, answered under every alias.
--
--   local op = operator.get "linear1"            -- aliases work wherever a name is read
--   op.flops(op.shape(c), "forward")
--
-- A file beside the script, under ETT_PATH or in operators/ is enough; nothing is registered.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local schema = require "ett.base.schema"

local operator = {}

--- Families that profiles know how to treat; a file may leave its family out ("elementwise").
operator.families = { "gemm", "bmm", "attention", "norm", "softmax", "elementwise", "rope", "embedding",
  "cross_entropy", "optimizer", "router" }

local fields = {
  name = "string", aliases = "list?", summary = "string", family = "string?", schema = "table",
  shape = "function", features = "function", flops = "function", bytes = "function",
  parameters = "function?", activation_bytes = "function?", kernel = "function?",
  kernel_shape = "function?", constraints = "list?", model_flops = "function?",
  doubles = "table?", small = "function?", reference = "table?",
  cpu = "function?", cuda = "string?", torch = "string?", passes = "list?",
}

--- Checks what an operator file returned and fills in what may be left out.
---@param op table
---@param path string for messages
function operator.check(op, path)
  local label = path:match("([^/]+)$")
  if type(op) ~= "table" then
    error_module.raise("model", "%s: an operator file must return a table, got %s", label, schema.describe(op))
  end
  -- Further fields are the author's own (sampler sources, notes): only the contract is checked.
  local contract = {}
  for name in pairs(fields) do contract[name] = op[name] end
  for name in pairs(op) do
    if type(name) == "string" and fields[name] == nil and type(op[name]) == "function" then
      local near = error_module.nearest(name, schema.keys(fields))
      if near and op[near] == nil then
        error_module.raise("model", "%s: unknown function '%s'; did you mean '%s'?", label, name, near)
      end
    end
  end
  schema.check(contract, fields, label)
  for i, constraint in ipairs(op.constraints or {}) do
    if type(constraint) ~= "table" or type(constraint[1]) ~= "string" or type(constraint[2]) ~= "function" then
      error_module.raise("model", "%s: constraint %d must be { \"what must hold\", function(s) … end }", label, i)
    end
  end
  if op.family then
    local known = false
    for _, family in ipairs(operator.families) do known = known or family == op.family end
    if not known then
      error_module.raise("model", "%s: unknown family '%s'%s; known are %s", label, op.family,
        error_module.suggestion(op.family, operator.families), table.concat(operator.families, ", "))
    end
  end
  op.family = op.family or "elementwise"
  op.aliases = op.aliases or {}
  op.passes = op.passes or op.family == "optimizer" and { "update" } or { "forward", "backward" }
  op.path = path
  if not op.kernel_shape then
    op.kernel_shape = function(s)
      local named = {}
      for i, value in ipairs(op.features(s)) do named["x" .. i] = value end
      return named
    end
  end
  return op
end

local loaded = {}      -- path -> operator
local by_name, name_generation = {}, nil -- name or alias -> operator, for one set of roots
local by_alias, alias_roots -- alias -> name, made once per set of roots

local function load_path(path)
  if not loaded[path] then loaded[path] = operator.check(find.load_file(path), path) end
  return loaded[path]
end

local function aliases()
  local roots = table.concat(find.roots(), "\n")
  if alias_roots ~= roots then
    by_alias = {}
    for _, entry in ipairs(find.list("operators")) do
      local op = load_path(entry.path)
      for _, alias in ipairs(op.aliases) do by_alias[alias] = by_alias[alias] or entry.name end
    end
    alias_roots = roots
  end
  return by_alias
end

--- The operator of a name or alias; raises with the nearest valid name.
---@param name string
function operator.get(name)
  if name_generation ~= find.generation then by_name, name_generation = {}, find.generation end
  local known = by_name[name]
  if known then return known end
  known = operator.search(name)
  by_name[name] = known
  return known
end

--- operator.get without its memory: looks among the files.
function operator.search(name)
  local path = find.path("operators", name)
  if path then return load_path(path) end
  local real = type(name) == "string" and aliases()[name]
  if real then return load_path(find.path("operators", real)) end
  local known = find.names("operators")
  for alias in pairs(aliases()) do known[#known + 1] = alias end
  table.sort(known)
  error_module.raise("missing", "unknown operator '%s'%s; `ett list operators` names them all",
    tostring(name), error_module.suggestion(name, known))
end

--- Whether a name or alias is an operator.
function operator.exists(name)
  return find.path("operators", name) ~= nil or aliases()[name] ~= nil
end

--- The field's standard name of a name or alias.
function operator.canonical(name) return operator.get(name).name end

--- Every operator found, sorted by name.
function operator.list()
  local ops = {}
  for i, entry in ipairs(find.list("operators")) do ops[i] = load_path(entry.path) end
  return ops
end

--- Checks a shape against the operator's schema and constraints; raises with every constraint that it breaks.
function operator.check_shape(op, s)
  local clean = schema.check(s, op.schema, op.name)
  local broken = {}
  for _, constraint in ipairs(op.constraints or {}) do
    if not constraint[2](clean) then broken[#broken + 1] = constraint[1] end
  end
  if #broken == 0 then return clean end
  local got = {}
  for i, name in ipairs(schema.keys(clean)) do got[i] = ("%s = %s"):format(name, schema.describe(clean[name])) end
  error_module.raise("model", "%s: impossible shape: %s, got %s", op.name, table.concat(broken, "; "),
    table.concat(got, ", "))
end

--- Forgets what was loaded (a REPL reloads edited files so).
function operator.forget() loaded, by_name, by_alias, alias_roots = {}, {}, nil, nil end

return operator

--- Operators: found by file name or alias, checked once.
--
--   local op = operator.get "rotary"             -- aliases work wherever a name is read
--   op.flops(op.shape(c), "forward")
--
-- A file beside the script, under ETT_PATH or in operators/ is found; no registration is needed.
local collective_names = require "ett.base.collective"
local dialect = require "ett.operator.dialect"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"

local operator = {}

--- Families that profiles distinguish. Default: "elementwise".
operator.families = { "gemm", "bmm", "attention", "norm", "softmax", "elementwise", "rope", "embedding",
  "cross_entropy", "optimizer", "router" }

--- Families of matrix products. All others are limited by memory.
operator.products = { gemm = true, bmm = true, attention = true }

local fields = {
  name = "string", aliases = "list?", summary = "string", source = "string?", note = "string?", schema = "table",
  family = { "string", default = "elementwise", one_of = operator.families },
  experts = "boolean?", attends = "boolean?", gated = "boolean?", masked = "boolean?", selective = "boolean?",
  compiled = "string?", joins = "string?", proportional = "string?", centred = "boolean?", unmeasured = "boolean?",
  unquantised = "boolean?", memory_bound = "boolean?", gathers = "boolean?", residual = "boolean?",
  owns_table = "boolean?", adaptive = "boolean?",
  region = { "string", optional = true, one_of = { "enter", "leave", "sum" } },
  shape = "function", flops = "function", bytes = "function", model_flops = "function?", law = "function?",
  instructions = "function?", refuse = "function?", repeats = "function?", chunk = "function?",
  inside = "function?", stores_logits = "function?",
  parameters = "function?", activation_bytes = "function?", recomputed_bytes = "function?",
  output_bytes = "function?",
  working_bytes = "function?", least_bytes = "function?", beside_bytes = "function?", earlier_bytes = "function?",
  gathered_bytes = "function?", scattered_bytes = "function?",
  constraints = "list?", passes = "list?", moves = "list?",
  kernel_shape = "function?", kernel = "function?", cuda = "string?", cpu = "function?", torch = "string?",
  doubles = "table?", small = "function?", recorded = "function?", columns = "list?",
  parts = "function?", sample_row = "table?",
}

--- Kinds of the values that the functions of a file must return.
local returned = { flops = "nonnegative", instructions = "nonnegative", bytes = "nonnegative",
  model_flops = "nonnegative", parameters = "natural",
  activation_bytes = "nonnegative", recomputed_bytes = "nonnegative", output_bytes = "nonnegative",
  working_bytes = "nonnegative", least_bytes = "nonnegative", beside_bytes = "nonnegative",
  earlier_bytes = "nonnegative", gathered_bytes = "nonnegative", scattered_bytes = "nonnegative",
  recorded = "table", parts = "table", repeats = "boolean", inside = "boolean", stores_logits = "boolean" }

--- The default dimensions of a kernel: the numbers of its shape.
local function numbers_of(s)
  local numbers = {}
  for name, value in pairs(s) do if type(value) == "number" then numbers[name] = value end end
  return numbers
end

local passes_known = { forward = true, backward = true, update = true }

local function check_passes(passes, label)
  if passes and #passes == 0 then error_module.raise("model", "%s: field 'passes' is empty", label) end
  if passes and #passes == 1 and passes[1] == "backward" then
    error_module.raise("model", "%s: field 'passes' has a backward pass without a forward pass", label)
  end
  for _, pass in ipairs(passes or {}) do
    if not passes_known[pass] then
      error_module.raise("model", "%s: field 'passes' must name forward, backward or update, got %s%s", label,
        schema.describe(pass), error_module.suggestion(pass, schema.keys(passes_known)))
    end
  end
end

local function check_constraints(constraints, label)
  for i, constraint in ipairs(constraints or {}) do
    if type(constraint) ~= "table" or type(constraint[1]) ~= "string" or type(constraint[2]) ~= "function" then
      error_module.raise("model", "%s: constraint %d must be { \"what must hold\", function(s) … end }", label, i)
    end
  end
end

-- kernel_shape, wrapped with checks of its table and of the numbers in it, unless the file is ett's. `causal` of
-- attention becomes a boolean, because 0 is true in Lua.
local function checked_dimensions(op, where, path)
  local kernel_shape, installed = op.kernel_shape, find.is_installed(path)
  if installed and op.family ~= "attention" then return kernel_shape end
  local returned_table = schema.returning(kernel_shape, "table", where, path)
  local function check(k)
    for name, value in next, k do
      if type(value) == "number" and not (value >= 0 and value < math.huge) then
        error_module.raise("model", "%s: %s: '%s' must be a number of at least 0, got %s",
          schema.place(kernel_shape, path), where, tostring(name), schema.describe(value))
      end
    end
  end
  return function(s, pass)
    local k = returned_table(s, pass)
    if not installed then check(k) end
    if op.family == "attention" and math.type(k.causal) then return merged(k, { causal = k.causal ~= 0 }) end
    return k
  end
end

local views = setmetatable({}, { __mode = "k" }) -- of configurations and of views themselves
local reader -- label of the function that reads a view
local unset -- the last field that a view lacked

-- A view of a configuration that cannot be changed. All operators share the configuration. Plans that differ only in pp
-- and dp share the operators, so a view has neither.
local function view_of(c)
  local view = views[c] or setmetatable({}, { __index = function(_, field)
    local value = c[field]
    if value == nil and (field == "pp" or field == "dp") then
      error_module.raise("model", "%s: reads c.%s, which a configuration does not have: operators are the same for all "
        .. "pp and dp", reader, field)
    end
    if value == nil then unset = field end
    return value
  end, __pairs = function() return pairs(c) end,
    __metatable = false, __newindex = function(_, field)
      error_module.raise("model", "%s: must not change the configuration; it sets '%s'", reader, tostring(field))
    end })
  views[c], views[view] = view, view
  return view
end

--- Rules of the fields that configurations may have; ett.plan and ett.model add theirs.
operator.configuration = {}

-- Text on a field that configurations never have: the field with this name in other software, the nearest field, or "".
local function nearest_field(field, c)
  for _, rules in pairs(operator.configuration) do if rules[field] then return "" end end
  for _, of in ipairs(schema.keys(operator.configuration)) do
    local known = schema.meant(field, operator.configuration[of])
    if known and c[known] ~= nil then return ("; did you mean '%s'?"):format(known) end
  end
  return error_module.suggestion(field, schema.keys(c))
end

-- The raised value; a string or an error as an error object. Lua's message about a nil field gets the nearest name:
-- nearest(field, of).
local function with_nearest(raised, nearest, of)
  if type(raised) == "table" and not error_module.is(raised) then return raised end
  local field = type(raised) == "string" and raised:match "a nil value %(field '([^']+)'%)$"
  return error_module.traced(field and raised .. nearest(field, of) or raised)
end

-- The checked shape of a user's operator. The error of a wrong one names a misspelt field that the function has read.
local function checked_shape(shape, check)
  return function(c)
    unset = nil
    local s = shape(c)
    local ok, clean = pcall(check, s)
    if ok then return clean end
    local near = type(unset) == "string" and nearest_field(unset, c) or ""
    if near ~= "" then clean.message = ("%s; c.%s is unset%s"):format(clean.message, unset, near) end
    error(clean, 0)
  end
end

-- The function `shape` or `refuse` of a user's operator, called with a view of the configuration. It may call the same
-- function of another operator.
local function guarded(shape, label)
  return function(c)
    local outer, view = reader, view_of(c)
    reader = label
    local ok, s = xpcall(shape, function(raised) return with_nearest(raised, nearest_field, c) end, view)
    reader = outer
    if not ok then error(s, 0) end
    return s
  end
end

--- Half-width of a law's interval, as a share, if the law states none.
local usual_half_width = 0.5

-- The function `law` of a file, with checks of its seconds, half-width and provenance.
local function checked_law(law, where, path)
  return function(s, device, pass)
    local seconds, half, provenance = law(s, device, pass)
    if seconds == nil then return nil end
    local label = ("%s: %s: law"):format(schema.place(law, path), where)
    schema.check_value(seconds, { "nonnegative", most = 1e9 }, label .. ": seconds")
    half = half or usual_half_width
    schema.check_value(half, "fraction", label .. ": half-width of the interval")
    if provenance ~= nil and provenance ~= "assumed" and provenance ~= "calibrated" then
      error_module.raise("model", "%s: the third result must be 'assumed', 'calibrated' or nil, got %s", label,
        schema.describe(provenance))
    end
    return seconds, half, provenance
  end
end

-- The function `refuse` of a file, with a check of its sentence.
local function checked_refusal(refuse, where, path)
  local label = ("%s: %s: refuse"):format(schema.place(refuse, path), where)
  local read = guarded(refuse, label)
  return function(c)
    local why = read(c)
    if why == nil or type(why) == "string" then return why end
    error_module.raise("model", "%s must return a string or nil, got %s", label, schema.describe(why))
  end
end

-- Text on a field that shapes never have: the nearest field, or "".
local function nearest_of_shape(field, spec)
  return spec[field] and "" or error_module.suggestion(field, schema.keys(spec))
end

-- The values of a call by xpcall; raises its error again.
local function results(ok, first, ...)
  if not ok then error(first, 0) end
  return first, ...
end

-- A function of a user's operator that reads a shape; its errors name the field that a misspelt one may mean.
local function reading_shape(fn, spec)
  local function handler(raised) return with_nearest(raised, nearest_of_shape, spec) end
  return function(...) return results(xpcall(fn, handler, ...)) end
end

--- The functions of a file, wrapped with a check of the returned value. Of ett's own files only shapes are checked:
--- their values come from the configuration, which users change.
local function checked_functions(op, path)
  local where, installed = ("operator '%s'"):format(op.name), find.is_installed(path)
  for name, kind in pairs(installed and {} or returned) do
    if op[name] then op[name] = schema.returning(op[name], kind, ("%s: %s"):format(where, name), path) end
  end
  op.kernel_shape = checked_dimensions(op, where .. ": kernel_shape", path)
  op.law = op.law and checked_law(op.law, where, path)
  op.refuse = op.refuse and checked_refusal(op.refuse, where, path)
  local label = ("%s: %s: shape"):format(schema.place(op.shape, path), where)
  local check, shape = schema.checker(op.schema, label), op.shape
  if installed then
    op.shape = function(c) return check(shape(c)) end
    return
  end
  op.shape = checked_shape(guarded(shape, label), check)
  for _, name in ipairs(schema.keys(returned)) do
    if op[name] and name ~= "parts" then op[name] = reading_shape(op[name], op.schema) end
  end
  op.kernel_shape = reading_shape(op.kernel_shape, op.schema)
  op.law = op.law and reading_shape(op.law, op.schema)
end

local loaded = {}      -- path -> operator

--- Checks the table that an operator file returned and fills in defaults. Raises on wrong or unknown fields. The table
--- may be a copy of another operator's.
---@param op table
---@param path string for messages
function operator.check(op, path)
  local label = find.label(path)
  local original = type(op) == "table" and loaded[op.path or false]
  if original and original == op then
    error_module.raise("model", "%s: returns the table of another operator; return a copy of it", label)
  elseif original then
    op.path, op.aliases = nil, op.aliases ~= original.aliases and op.aliases or nil
  end
  op.family = schema.check(op, fields, label).family
  if op.model_flops and not operator.products[op.family] then
    error_module.raise("model", "%s: field 'model_flops' has no effect in the family '%s': only the families gemm, bmm "
      .. "and attention count as model FLOPs", label, op.family)
  end
  error_module.wrap(label .. ": schema", schema.check_rules, op.schema)
  check_constraints(op.constraints, label)
  check_passes(op.passes, label)
  for _, alias in ipairs(op.aliases or {}) do schema.check_value(alias, "string", label .. ": aliases: a name") end
  op.aliases = op.aliases or {}
  op.passes = op.passes or op.family == "optimizer" and { "update" } or { "forward", "backward" }
  op.kernel_shape = op.kernel_shape or numbers_of
  checked_functions(op, path)
  dialect.complete(op)
  op.path = path
  return op
end

local by_name, name_generation = {}, nil -- name or alias -> operator, for one set of roots
local by_alias, alias_roots -- alias -> name, for one set of roots

local function load_path(path)
  if loaded[path] then return loaded[path] end
  local op = operator.check(find.load_file(path), path)
  local name = find.name_of(path)
  if op.name ~= name then
    error_module.raise("model", "%s: field 'name' must be the file's name '%s', got '%s'", find.label(path), name,
      op.name)
  end
  loaded[path] = op
  return op
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

-- The name of the operator with this alias, or nil. With files of ett alone, the names of dialects and of collectives
-- are known before all operators are loaded.
local function with_alias(name)
  if not by_alias and find.only_installed "operators" and find.only_installed "lua/ett/import" then
    local own = dialect.operator(name)
    if own then return own end
    if collective_names.find(name) or dialect.collective(name) then return nil end
  end
  return aliases()[name]
end

--- The operator of a name or alias. Raises an error with the nearest valid name if there is none.
---@param name string
function operator.get(name)
  local op = name_generation == find.generation and by_name[name] or operator.find(name)
  if op then return op end
  local known = find.names("operators")
  for alias in pairs(aliases()) do known[#known + 1] = alias end
  table.sort(known)
  error_module.raise("missing", "unknown operator '%s'%s", tostring(name), find.beside("operators", tostring(name))
    or error_module.suggestion(name, known) .. "; `ett list operators` names them all")
end

--- The operator of a name or alias, or nil.
function operator.find(name)
  if type(name) ~= "string" then return nil end
  if name_generation ~= find.generation then by_name, name_generation = {}, find.generation end
  local known = by_name[name]
  if known then return known end
  local path = find.path("operators", name)
  local real = not path and with_alias(name)
  if real then path = find.path("operators", real) end
  known = path and load_path(path) or nil
  by_name[name] = known
  return known
end

function operator.list()
  local ops = {}
  for i, entry in ipairs(find.list("operators")) do ops[i] = load_path(entry.path) end
  return ops
end

--- The arithmetic of an operator as FLOPs at the peak rate outside products. Each instruction counts as a multiply-add.
function operator.arithmetic(op, shape, pass)
  return op.instructions and 2 * op.instructions(shape, pass) or op.flops(shape, pass)
end

--- Checks a shape against the operator's schema and constraints. The error lists every violated constraint.
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

local forgotten = 0

--- Empties the cache, so that edited files are read again.
function operator.forget()
  loaded, by_name, by_alias, alias_roots, forgotten = {}, {}, nil, nil, forgotten + 1
end

--- A number that changes whenever operators may have been read again.
function operator.generation() return forgotten + find.generation end

return operator

--- Conditions on plans: a Lua expression over the fields of a plan, `devices`, `cluster`, `nodes` and `gpus_per_node`.
--
--   where.new "tp <= gpus_per_node and zero < 3"
local error_module = require "ett.base.error"
local fields = require "ett.plan.fields"
local schema = require "ett.base.schema"
local searched = require "ett.search.searched"
local space_fields = { "devices", "cluster", "nodes", "gpus_per_node" }

local where = {}
local Where = {}
Where.__index = Where

local keywords = {}
for word in ("and or not true false nil if then else end function return local for in do"):gmatch "%a+" do
  keywords[word] = true
end

local walked = {}
for _, name in ipairs(searched.walked) do walked[name] = true end

local function fail(text, format, ...)
  error_module.raise("usage", "search: where '%s': " .. format, text, ...)
end

--- The names that an expression uses, checked.
local function names_of(text)
  local known, names = schema.keys(fields.schema), {}
  table.move(space_fields, 1, #space_fields, #known + 1, known)
  local is_known = { math = true }
  for _, name in ipairs(known) do is_known[name] = true end
  local bare = text:gsub("(['\"]).-%1", function(s) return (" "):rep(#s) end)
  for at, name in bare:gmatch "()([%a_][%w_]*)" do
    local before = bare:sub(1, at - 1):match "(%S)%s*$"
    if before ~= "." and not keywords[name] and not bare:sub(at - 1, at - 1):match "%d" then
      if not is_known[name] then
        local near = error_module.suggestion(name, known)
        fail(text, "unknown name '%s' at character %d%s", name, at, near ~= "" and near
          or ("; known are the fields of a plan, %s and math"):format(table.concat(space_fields, ", ")))
      end
      names[name] = name ~= "math" or nil
    end
  end
  return names
end

--- A condition from a text, or from a function of a plan.
function where.new(given)
  if type(given) == "function" then
    return setmetatable({ text = "function", test = given, names = { recompute = true }, by_values = false }, Where)
  end
  if type(given) ~= "string" then
    error_module.raise("argument", "search: 'where' must be an expression or a function, got %s",
      schema.describe(given))
  end
  if not given:find "%S" then fail(given, "an expression is missing, such as tp <= 8") end
  local env = {}
  local chunk, why = load("return " .. given, "=where", "t", env)
  if not chunk then
    local bare = (" " .. given:gsub("(['\"]).-%1", "")):gsub("[=~<>]=", "")
    if bare:find("=", 1, true) then fail(given, "write == in place of =, as in tp == 4") end
    if why:find "near <eof>$" then fail(given, "the expression is incomplete") end
    fail(given, "%s", (why:gsub("^where:%d+: ", "")))
  end
  local names = names_of(given)
  local self = setmetatable({ text = given, names = names, masks = setmetatable({}, { __mode = "k" }),
    sorted = {} }, Where)
  function self.test(p)
    env.math = math
    for name in pairs(names) do env[name] = p[name] end
    return chunk()
  end
  for name in pairs(names) do
    if walked[name] then self.below = true else self.sorted[#self.sorted + 1] = name end
  end
  table.sort(self.sorted)
  self.by_values = true
  return self
end

local function passes(self, p)
  local ok, value = pcall(self.test, p)
  if ok and (value == nil or value == true or value == false) then return value or false end
  local values = {}
  for _, name in ipairs(schema.keys(self.names)) do
    values[#values + 1] = ("%s = %s"):format(name, tostring(p[name]))
  end
  local with = values[1] and (" (with %s)"):format(table.concat(values, ", ")) or ""
  if ok then fail(self.text, "must be true or false, got %s%s", schema.describe(value), with) end
  fail(self.text, "%s%s", tostring(value):gsub("^where:%d+: ", ""):gsub("global '", "'"), with)
end

--- The view of a plan that a condition reads.
local function view(p, setting)
  return setmetatable({ devices = setting.devices, cluster = setting.cluster.name,
    nodes = math.ceil(setting.devices / setting.cluster.gpus_per_node), gpus_per_node = setting.cluster.gpus_per_node,
    micro_batches = p.global_batch // (p.dp * p.micro_batch) }, { __index = p })
end

--- False if no plan below a chunk passes, judged without the fields below the chunk.
function Where:chunk(p, setting)
  if self.below or not self.by_values then return true end
  return passes(self, view(p, setting))
end

--- The plans below a chunk that pass: one byte each in the order of ett_search_part; nil: all.
function Where:mask(p, setting, axes)
  if self.by_values and not self.below then return nil end
  local seen = view(p, setting)
  local key, masks
  if self.by_values then
    masks = self.masks[axes] or {} -- by the axes, because programs and spaces differ in them
    self.masks[axes] = masks
    local values = {}
    for i, name in ipairs(self.sorted) do values[i] = tostring(seen[name]) end
    key = table.concat(values, " ")
    if masks[key] then return masks[key] end
  end
  local bytes = {}
  local function walk(depth)
    local name = searched.walked[depth]
    if not name then bytes[#bytes + 1] = passes(self, seen) and "\1" or "\0" end
    for _, value in ipairs(name and axes[name] or {}) do
      seen[name] = value
      walk(depth + 1)
    end
  end
  walk(1)
  local mask = table.concat(bytes)
  if key then masks[key] = mask end
  return mask
end

return where

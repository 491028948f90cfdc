--- Every value of a field, for vary = { field = "all" }.
local error_module = require "ett.base.error"
local fields = require "ett.plan.fields"
local find = require "ett.base.find"
local hyper = require("ett.model.hyper").fields
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"

local values = {}

--- Data types for which the clusters' devices state a rate.
local function dtypes(given)
  local stated = {}
  for _, cluster in ipairs(given.clusters) do
    for dtype in pairs(cluster.device.peak_flops or {}) do
      if schema.dtype_bytes[dtype] and dtype ~= "int8" then stated[dtype] = true end
    end
  end
  return schema.keys(stated)
end

--- Rank orders with tp first. Axes that no plan of the search has (cp and ep of 1) follow their predecessor in the
--- default order.
local function rank_orders(given)
  local function is_one(name) return given.plan[name] == 1 end
  local behind, axes = {}, {}
  if is_one "ep" or not given.model.hyper.experts then behind.cp = "ep" else axes[1] = "ep" end
  if is_one "cp" then behind.tp = "cp" else axes[#axes + 1] = "cp" end
  axes[#axes + 1], axes[#axes + 2] = "dp", "pp"
  local list = {}
  local function add(text, axis, left)
    text = text .. axis
    while behind[axis] do
      axis = behind[axis]
      text = text .. "-" .. axis
    end
    if #left == 0 then list[#list + 1] = text end
    for i, other in ipairs(left) do
      local rest = table.move(left, 1, #left, 1, {})
      table.remove(rest, i)
      add(text .. "-", other, rest)
    end
  end
  add("", "tp", axes)
  return list
end

local quarters = function() return { 0, 0.25, 0.5, 0.75, 1 } end

local of = { dtype = dtypes, rank_order = rank_orders, offload_activations = quarters,
  offload_gradients = quarters, offload_optimizer = quarters, offload_weights = quarters,
  stack = function() return find.names "lua/stacks" end,
  schedule = function()
    local names = schema.keys(schedules.built_in)
    for _, name in ipairs(schedules.names()) do if not schedules.built_in[name] then names[#names + 1] = name end end
    return names
  end }

--- Fields that a search varies over all values by default.
values.default = {}

--- Every value of a field.
---@param given table of a search { model, clusters, plan }
---@param searched table the fields that a search varies by itself
function values.all(name, given, searched)
  local field = fields.schema[name]
  if of[name] then return of[name](given) end
  if field and field.one_of then return field.one_of end
  if field and field[1] == "boolean" then return { false, true } end
  if field and searched[name] then return values.default end
  local known = schema.keys(of)
  for _, other in ipairs(fields.list) do
    if not of[other[1]] and (other.one_of or other[2] == "boolean") then known[#known + 1] = other[1] end
  end
  table.sort(known)
  if not field and not searched[name] then values.checked("search: vary", name, {}, searched) end
  error_module.raise("plan", "search: vary: '%s' has no list of all values; give some, such as %s=A,B,C. These have "
    .. "one: %s", name, name, table.concat(known, ", "))
end

--- The checked values of a varied field.
---@param who string for messages
---@param more table<string, any>? other fields that may vary; their values are not checked
function values.checked(who, name, list, more)
  if not fields.schema[name] and not (more and more[name]) then
    local hint = hyper[name] and "; `ett sweep` varies hyper-parameters"
      or schema.suggestion(name, fields.schema, more or {})
    error_module.raise("plan", "%s: unknown field '%s'%s", who, name, hint)
  end
  if type(list) ~= "table" or list[1] == nil then -- a list that begins with a hole may have a length
    error_module.raise("plan", "%s: field '%s' must be a non-empty list of values, got %s", who, name,
      schema.describe(list))
  end
  local rule, clean = { [name] = fields.schema[name] or "any" }, {}
  for i, value in ipairs(list) do clean[i] = schema.check({ [name] = value }, rule, who, "plan")[name] end
  return clean
end

return values

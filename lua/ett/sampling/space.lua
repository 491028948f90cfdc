--- The shapes of one table of a campaign: grids of ranges and lists, random and low-discrepancy designs.
--
-- A space is { total = number of shapes, shape(index) -> list of integers in the order of the columns }. A grid keeps
-- indices only: a shape is made when it is needed.
local error_module = require "ett.base.error"
local mix = require("ett.regress").mix
local sample_limit = require "ett.sampling.limit"
local schema = require "ett.base.schema"

local campaign_space = {}

--- Number of tries before a design with too few shapes fails.
campaign_space.least_tries = 100000

-- Largest number of shapes of a design; all are held in memory.
local MOST_SCATTERED = 1 << 24

-- Largest number of grid shapes for which 'where' and 'with' are called.
local MOST_LOOKED_AT = 1 << 26

-- The largest dimension of a design: above it, not every integer is a float.
local MOST_VALUE = 1 << 53

local axis_schema = { start = "integer?", stop = "integer?", step = "integer?",
  op = { "string", optional = true, one_of = { "add", "mul" } },
  from = "positive?", to = "positive?", scale = { "string", optional = true, one_of = { "log", "linear" } },
  multiple = "count?" }

--- Whether a dimension is given as a list.
local function is_list(given) return type(given) == "table" and given[1] ~= nil end

--- A list of distinct integers of at least `least`; 16.0 counts as an integer.
local function list_axis(name, given, least, wanted)
  local fault = schema.list_fault(given)
  if fault then error_module.raise("model", "dimension '%s': %s", name, fault) end
  local list, seen = {}, {}
  for i, entry in ipairs(given) do
    local value = math.type(entry) and math.tointeger(entry)
    if not value or value < least then
      error_module.raise("model", "dimension '%s': value %d must be %s, got %s", name, i, wanted,
        schema.describe(entry))
    end
    if seen[value] then
      error_module.raise("model", "dimension '%s': value %d repeats %d; list each value once", name, i, value)
    end
    list[i], seen[value] = value, true
  end
  return { start = 1, stop = #list, list = list }
end

--- One grid dimension as a range or a list. least: 1, or 0 where the operator allows it.
local function grid_axis(name, given, least)
  local wanted = least == 0 and "an integer of at least 0" or "a positive integer"
  local one = math.type(given) and math.tointeger(given)
  if one then
    if one < least then error_module.raise("model", "dimension '%s' must be %s, got %d", name, wanted, one) end
    return { start = one, stop = one }
  end
  if type(given) ~= "table" then
    error_module.raise("model", "dimension '%s' must be an integer, a list or a range, got %s", name,
      schema.describe(given))
  end
  if next(given) == nil then error_module.raise("model", "dimension '%s': the list is empty", name) end
  if is_list(given) then return list_axis(name, given, least, wanted) end
  local axis = schema.check(given, axis_schema, ("dimension '%s'"):format(name))
  if not axis.start or not axis.stop then
    error_module.raise("model", "dimension '%s': a grid needs start and stop; from and to are for designs "
      .. "'random' and 'halton'", name)
  end
  if axis.scale or axis.multiple then
    error_module.raise("model", "dimension '%s': scale and multiple need from and to; start and stop need step "
      .. "and op", name)
  end
  if axis.start < least then
    error_module.raise("model", "dimension '%s': start must be %s, got %d", name, wanted, axis.start)
  end
  return { start = axis.start, stop = axis.stop, step = axis.step or 1, op = axis.op or "add" }
end

--- Number of values of a range, with integers: a quotient of logarithms rounds wrongly.
local function range_count(axis)
  local start, stop, step = axis.start, axis.stop, axis.step or 1
  if start > stop then error_module.raise("argument", "range starts at %d above its end %d", start, stop) end
  if start == stop then return 1 end
  if axis.op ~= "mul" then
    if step < 1 then
      error_module.raise("argument", "step of an 'add' range must be at least 1, got %d", step)
    end
    return (stop - start) // step + 1
  end
  if step < 2 or start < 1 then
    error_module.raise("argument", "a 'mul' range needs a step of at least 2 and a start of at least 1, got step %d "
      .. "and start %d", step, start)
  end
  local count = 1
  while start <= stop // step do
    start, count = start * step, count + 1
  end
  return count
end

--- Value number `index` (from 0) of a dimension.
local function axis_value(axis, index)
  local value = axis.start + (axis.op == "mul" and 0 or index * (axis.step or 1))
  for _ = 1, axis.op == "mul" and index or 0 do value = value * axis.step end
  return axis.list and axis.list[value] or value
end

--- Values in the order of the columns, as a table by column.
function campaign_space.named(columns, values)
  local named = {}
  for i, name in ipairs(columns) do named[name] = values[i] end
  return named
end

--- Runs body(call); call("where", s) calls the campaign's function of that name. Errors and endless loops in it are
--- reported with that name.
local function with_functions(entry, body)
  local under_way
  local ok, result = sample_limit.each(function(limited)
    return body(function(name, s)
      under_way = name
      local answer = limited(entry[name], s)
      under_way = nil
      return answer
    end)
  end)
  if ok then return result end
  if under_way then
    result = error_module.label(result, ("'%s' of %s"):format(under_way, entry.operator or entry.collective))
  end
  error(result, 0)
end

--- Applies the campaign's function 'with', which sets dimensions.
local function follow(columns, call, values)
  local named = campaign_space.named(columns, values)
  call("with", named)
  for i, name in ipairs(columns) do -- the function may have set a metatable
    local given = rawget(named, name)
    local value = math.type(given) and math.tointeger(given)
    if not value or value < 0 then
      error_module.raise("model", "with: dimension '%s' must be %s, it was set to %s", name,
        value and "at least 0" or "an integer", schema.describe(given))
    end
    values[i] = value
  end
  for name in next, named do
    local known = false
    for _, column in ipairs(columns) do known = known or column == name end
    if not known then
      error_module.raise("model", "with: unknown dimension '%s'%s; give it in shapes too", tostring(name),
        error_module.suggestion(name, columns))
    end
  end
  return values
end

--- The shapes of a grid after 'with' (sets dimensions) and 'where' (filters).
local function chosen(columns, entry, space)
  if space.total > MOST_LOOKED_AT then
    error_module.raise("limit", "%s: 'where' and 'with' are called for every shape of a grid, at most %d; this grid "
      .. "has %d; use design 'random' or 'halton' with count", table.concat(columns, ", "), MOST_LOOKED_AT, space.total)
  end
  local kept, seen = {}, entry.with and {}
  with_functions(entry, function(call)
    for index = 1, space.total do
      local values = space.shape(index)
      if entry.with then follow(columns, call, values) end
      local key = seen and table.concat(values, ",")
      if not (seen and seen[key]) and (not entry.where or call("where", campaign_space.named(columns, values))) then
        kept[#kept + 1] = index
        if seen then seen[key] = true end
      end
    end
  end)
  if #kept == 0 then
    error_module.raise("model", "%s: none of %d shapes satisfies 'where'", table.concat(columns, ", "), space.total)
  end
  return { total = #kept, shape = function(at)
    local values = space.shape(kept[at])
    if not entry.with then return values end
    return with_functions(entry, function(call) return follow(columns, call, values) end)
  end }
end

--- The grid of the axes; the last dimension varies fastest; ranges include their ends.
---@param columns string[]
---@param axes table<string, any> by column: integer, list, or { start =, stop =, step =, op = }
---@param entry table? of the campaign: `where`, `with`; zero: the set of columns that may be 0
function campaign_space.grid(columns, axes, entry)
  local list, zero, total = {}, entry and entry.zero or {}, 1
  for i, name in ipairs(columns) do
    list[i] = grid_axis(name, axes[name], zero[name] and 0 or 1)
    list[i].count = error_module.wrap(("dimension '%s'"):format(name), range_count, list[i])
    if total > math.maxinteger // list[i].count then
      error_module.raise("limit", "%s: more than 2^63 shapes", table.concat(columns, ", "))
    end
    total = total * list[i].count
  end
  local space = { total = total, shape = function(index)
    local values, rest = {}, index - 1
    for i = #list, 1, -1 do
      values[i] = axis_value(list[i], rest % list[i].count)
      rest = rest // list[i].count
    end
    return values
  end }
  return entry and (entry.where or entry.with) and chosen(columns, entry, space) or space
end

local golden = 0x9e3779b97f4a7c15 -- of splitmix64

--- A uniform number in [0, 1) from 64 bits (the end of splitmix64, Steele et al. 2014).
local function uniform_of(x) return (mix(x - golden) >> 11) * 2.0 ^ -53 end

--- A seeded uniform number in [0, 1) from two integers.
local function uniform(seed, index) return uniform_of(seed * golden + index * -4658895280553007687) end

local primes = { 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101,
  103, 107, 109, 113, 127, 131 }

--- Point `index` (from 1) of the Halton sequence in a dimension (1 to 32), shifted modulo 1 by a seeded offset (Cranley
--- and Patterson 1976): low-discrepancy in [0, 1).
function campaign_space.halton(index, dimension, seed)
  local base, fraction, value = primes[dimension], 1.0, 0.0
  while index > 0 do
    fraction = fraction / base
    value, index = value + fraction * (index % base), index // base
  end
  value = value + uniform_of(seed * 64 + dimension - 1 + golden)
  return value >= 1 and value - 1 or value
end

--- A function from u in [0, 1) to an integer value of a design's dimension, and the number of such values.
local function placer(name, axis, zero)
  if type(axis) ~= "table" or is_list(axis) or axis.start or axis.stop then
    local one = campaign_space.grid({ name }, { [name] = axis }, { zero = zero })
    return function(u) return one.shape(math.min(one.total, 1 + math.floor(u * one.total)))[1] end,
      one.total
  end
  schema.check(axis, axis_schema, ("dimension '%s'"):format(name))
  local from, to, multiple = axis.from, axis.to, axis.multiple or 1
  if not from or not to or from > to then
    error_module.raise("model", "dimension '%s': from must be at most to", name)
  end
  if axis.step or axis.op then
    error_module.raise("model", "dimension '%s': step and op need start and stop; with from and to give multiple",
      name)
  end
  if to > MOST_VALUE then
    error_module.raise("model", "dimension '%s': to must be at most %d, got %s", name, MOST_VALUE,
      schema.describe(to))
  end
  local lowest, highest = math.ceil(from / multiple) * multiple, math.floor(to / multiple) * multiple
  if lowest > highest then
    error_module.raise("model", "dimension '%s': no multiple of %d lies from %s to %s", name, multiple,
      schema.describe(from), schema.describe(to))
  end
  return function(u)
    local value = axis.scale == "linear" and from + u * (to - from)
      or math.exp(math.log(from) + u * (math.log(to) - math.log(from)))
    local steps = math.max(1, math.floor(value / multiple + 0.5))
    return math.tointeger(math.min(math.max(steps * multiple, lowest), highest))
  end, (highest - lowest) / multiple + 1
end

--- A random or low-discrepancy design of `count` distinct shapes that pass `where`.
---@param entry table of the campaign: design = "random"|"halton", count, where, with
function campaign_space.scattered(columns, axes, entry, seed)
  local label = table.concat(columns, ", ")
  if not entry.count then error_module.raise("model", "%s: design '%s' needs count", label, entry.design) end
  if entry.count > MOST_SCATTERED then
    error_module.raise("model", "%s: count must be at most %d, got %d", label, MOST_SCATTERED, entry.count)
  end
  if entry.design == "halton" and #columns > #primes then
    error_module.raise("limit", "%s: design 'halton' takes at most %d dimensions", label, #primes)
  end
  local place, most = {}, 1.0
  for i, name in ipairs(columns) do
    local places
    place[i], places = placer(name, axes[name], entry.zero)
    most = most * places
  end
  if entry.count > most then
    error_module.raise("model", "%s: count is %d, there are %d such shapes", label, entry.count, most)
  end
  local shapes, seen, tries, last = {}, {}, 0, 0 -- last: the try that found a shape
  local least = campaign_space.least_tries
  with_functions(entry, function(call)
    -- Ends if fewer than one try in 2000, or no try of the last half, gave a new shape that passes 'where'.
    while #shapes < entry.count and (tries < least or tries < 2000 * #shapes and tries < 2 * last) do
      tries = tries + 1
      local values = {}
      for i in ipairs(columns) do
        values[i] = place[i](entry.design == "halton" and campaign_space.halton(tries, i, seed)
          or uniform(seed * 131 + i, tries))
      end
      if entry.with then follow(columns, call, values) end
      local key = table.concat(values, ",")
      if not seen[key] and (not entry.where or call("where", campaign_space.named(columns, values))) then
        seen[key] = true
        shapes[#shapes + 1], last = values, tries
      end
    end
  end)
  if #shapes < entry.count then
    error_module.raise("model", "%s: only %d of %d shapes satisfy the constraints after %d tries", label, #shapes,
      entry.count, tries)
  end
  return { total = #shapes, shape = function(index) return { table.unpack(shapes[index]) } end }
end

--- The space of a campaign entry.
function campaign_space.of(columns, entry, seed)
  if entry.design == "grid" then
    if entry.count then
      error_module.raise("model", "count needs design 'random' or 'halton'; a grid has the shapes of its ranges")
    end
    return campaign_space.grid(columns, entry.shapes, entry)
  end
  return campaign_space.scattered(columns, entry.shapes, entry, seed)
end

return campaign_space

--- Schedules: found by file name and checked; they give the units of each pipeline stage.
--
-- A schedule file returns { name =, summary =, order = function(stage, plan) … end }; lua/schedules/README.md
-- describes the result of `order`. Errors name the schedule's file and the line of `order`.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local follows = require "ett.plan.follows"
local schema = require "ett.base.schema"

local schedules = {}

--- Schedules implemented in the C core, without reading their files.
schedules.built_in = { ["gpipe"] = true, ["1f1b"] = true, ["interleaved"] = true }

local folder = "lua/schedules"
local fields = { name = "string?", summary = "string?", source = "string?", chunks = "count?",
  exact_chunks = "boolean?", ways = "count?", pairs = "boolean?", slice = "function?", activations = "function?",
  refuse = "function?", order = "function?" }

function schedules.names() return find.names(folder) end

function schedules.exists(name) return schedules.built_in[name] or find.path(folder, name) ~= nil end

--- Calls fn(...). Errors are attributed to the schedule: `label` is put in front (nil: a built-in schedule).
function schedules.call(label, fn, ...)
  if not label then return fn(...) end
  return error_module.wrap(label, fn, ...)
end

local built_in = { gpipe = { chunks = 1 }, ["1f1b"] = { chunks = 1, pairs = true }, interleaved = { pairs = true } }

local function call_own(fn, ...)
  local ok, value = pcall(fn, ...)
  if ok then return value end
  local object = error_module.from(value) -- a Lua error that already names file and line
  if object.kind == "internal" then object.kind = "model" end
  error(object, 0)
end

--- An integer of at least `least` that a function of a schedule file returned for a stage.
local function whole(value, least, path, fn, name, stage)
  local n = math.type(value) == "integer" and value or type(value) == "number" and math.tointeger(value)
  if not n or n < least then
    error_module.raise("model", "%s: stage %d: '%s' must return an integer of at least %d, got %s",
      schema.place(fn, path), stage, name, least, schema.describe(value))
  end
  return n
end

--- The slices of all slots, chunk after chunk, within a chunk stage after stage; and the declared activations of each
--- stage.
local function placement(schedule, path, p)
  local chunks = p.vp * (schedule.ways or 1)
  local given = { chunks = chunks, ways = schedule.ways or 1, slice = {}, most = schedule.activations and {} }
  for stage = 1, p.pp do
    for chunk = 1, chunks do
      local slice = (chunk - 1) * p.pp + stage
      if schedule.slice then
        slice = whole(call_own(schedule.slice, stage, chunk, p), 1, path, schedule.slice, "slice", stage)
      end
      given.slice[(chunk - 1) * p.pp + stage] = slice
    end
    if given.most then
      given.most[stage] = whole(call_own(schedule.activations, stage, p), 0, path, schedule.activations, "activations",
        stage)
    end
  end
  return given
end

--- The units of every stage, in the form that C reads.
local function build(schedule, path, p)
  local order, label = schedule.order, schema.place(schedule.order or schedule.activations, path)
  local stages, given = {}, placement(schedule, path, p)
  given.planned = not order and p.micro_batches or nil
  for stage = 1, p.pp do
    local units = {}
    if order then units = call_own(order, stage, p) end
    if type(units) ~= "table" then
      error_module.raise("model", "%s: stage %d: 'order' must return a list of units, got %s", label, stage,
        schema.describe(units))
    end
    stages[stage] = units
  end
  return schedules.call(label, require("ett.step").orders, stages, given), label
end

-- Cache for a sweep: loaded schedules, and their orders by the fields that they depend on.
local Memo = {}
Memo.__index = Memo
local most_units = 1 << 22 -- cached units per schedule: 32 MB

--- Default group size of the interleaved schedule: the smallest that Megatron-LM allows. Its last group is complete or
--- has at least pp micro-batches.
function schedules.interleave_group(pp, micro_batches)
  local group = pp
  while micro_batches > group and micro_batches % group > 0 and micro_batches % group < pp do group = group + 1 end
  return group
end

--- The schedule cache of one sweep or estimate; each file is read once.
function schedules.memo() return setmetatable({ loaded = {} }, Memo) end

local function entry_of(memo, name)
  local entry = memo.loaded[name]
  if not entry then
    local schedule, path = find.described(folder, name, fields)
    local planned = schedule.activations and schedule.chunks == 1 and not schedule.slice and not schedule.ways
    if not schedule.order and not planned then
      error_module.raise("model", "%s: missing field 'order' (a function); without it a schedule has 'activations' and "
        .. "chunks = 1, and neither 'slice' nor 'ways'", path:match "[^/]+$")
    end
    entry = { schedule = schedule, path = path, units = most_units }
    memo.loaded[name] = entry
  end
  return entry
end

--- Ways of a schedule, which is the number of stages that hold the same weights.
---@param name string? nil: 1
function schedules.ways(name)
  if not name or schedules.built_in[name] then return 1 end
  return find.described(folder, name, fields).ways or 1
end

--- Declared properties of a schedule: chunks, exact_chunks, ways, pairs, refuse.
function Memo:properties(name) return built_in[name] or entry_of(self, name).schedule end

-- A schedule may depend on any field.
local every_field = setmetatable({}, { __index = function() return true end })

--- The orders of a schedule as a function of a plan, cached by the fields that the schedule reads.
local function orders_of(entry)
  entry.units = 0
  return follows.remember(function(p)
    local orders, label = build(entry.schedule, entry.path, p)
    entry.label, entry.units = label, entry.units + 3 * p.pp * p.vp * (entry.schedule.ways or 1) * p.micro_batches
    return orders
  end, every_field)
end

--- The units of every stage under a plan, in the form that C reads, and a label for errors; nil for a built-in
--- schedule.
---@param p table a clean plan
---@return userdata? orders, string? label
function Memo:orders(p)
  if schedules.built_in[p.schedule] then return nil end
  local entry = entry_of(self, p.schedule)
  if entry.units >= most_units then entry.orders = orders_of(entry) end
  return entry.orders(p), entry.label
end

--- The slices of all slots, chunk after chunk, within a chunk stage after stage: slot (chunk - 1) pp + stage.
function schedules.slices(p)
  if not built_in[p.schedule] then return placement(entry_of(schedules.memo(), p.schedule).schedule, "", p).slice end
  local list = {}
  for slot = 1, p.pp * p.vp do list[slot] = slot end
  return list
end

--- The same without a cache: reads the schedule's file again.
function schedules.orders(p) return schedules.memo():orders(p) end

return schedules

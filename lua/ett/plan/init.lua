--- Plans: the parallel layout of a training step.
--
--   local p = plan.new({ pp = 4, tp = 2, dp = 2, micro_batch = 4, micro_batches = 8, seq = 4096 }, model, cluster)
--
-- All violations are reported at once: the rule, the nearest values that satisfy it, and the nearest valid plans on
-- the same number of devices.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local fields = require "ett.plan.fields"
local merged = require "ett.base.merged"
local plan_rules = require "ett.plan.rules"
local ranks = require "ett.plan.ranks"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"

local plan = {}

--- The plan fields as a schema. The global batch is dp * micro_batch * micro_batches sequences.
plan.schema = fields.schema
require("ett.operator").configuration.plan = plan.schema

--- The error of an unknown schedule or stack.
local function unknown(field, name, known)
  return ("field '%s': unknown %s '%s'%s"):format(field, field, name, find.beside(field .. "s", name)
    or ("%s; known are %s"):format(error_module.suggestion(name, known), table.concat(known, ", ")))
end

--- Errors of single fields that their kinds do not detect: unknown schedules and stacks, impossible numbers of layers.
--- Converts the numbers of a split to integers.
local function check_fields(p, found)
  if not schedules.exists(p.schedule) then
    found[#found + 1] = unknown("schedule", p.schedule, schedules.names())
  end
  if p.stack and not stacks.exists(p.stack) then
    found[#found + 1] = unknown("stack", p.stack, stacks.names())
  elseif p.stack then
    local ok, why = pcall(stacks.get, p.stack)
    if not ok then found[#found + 1] = tostring(why) end
  end
  local fault = ranks.fault(p.rank_order)
  if fault then found[#found + 1] = ("field 'rank_order': %s"):format(fault) end
  if p.rank_map and #p.rank_map == p.pp * p.tp * p.cp * p.dp then -- otherwise a rule reports its length
    local ok, why = pcall(ranks.map, p.rank_map)
    if not ok then found[#found + 1] = tostring(why) end
  end
  if type(p.split) ~= "table" then return end
  for i, n in ipairs(p.split) do
    local whole = math.tointeger(n)
    if not whole or whole < 0 then
      found[#found + 1] = ("field 'split[%d]' must be an integer of at least 0, got %s"):format(i, schema.describe(n))
    else
      p.split[i] = whole
    end
  end
end

plan.check_fields = check_fields

-- Overlaps that a stack states, and where.
local overlaps = { overlap_gradients = true, overlap_parameters = true,
  overlap_sends = function(p) return p.schedule == "interleaved" end }

--- Names of the overlaps that a plan leaves open.
---@param given table
---@return string[]
function plan.open_overlaps(given)
  local names = {}
  for _, name in ipairs(schema.keys(overlaps)) do
    if given[name] == nil then names[#names + 1] = name end
  end
  return names
end

--- The value of a field that a plan leaves open: the stack's, if it states the overlap and that has an effect. Bytes of
--- optimizer states follow the data type.
---@param p table the other fields
---@param field table of ett.plan.fields
function plan.default(p, field)
  local name, where = field[1], overlaps[field[1]]
  if name == "optimizer_bytes" then return fields.adam_bytes(p) end
  if where and p.stack and stacks.value(p.stack, name) and field.needs[2](p) and (where == true or where(p)) then
    return true
  end
  return field.default
end

-- Sets the fields of a plan whose defaults depend on other fields, if they were not given.
local function add_defaults(p, given)
  for _, name in ipairs(plan.open_overlaps(given)) do
    p[name] = plan.default(p, fields.list[fields.position[name]])
  end
  p.optimizer_bytes = p.optimizer_bytes or fields.adam_bytes(p)
end

-- Sets the global batch by the number of micro-batches, or the other way round.
local function add_batches(p)
  if not p.micro_batches then p.micro_batches = p.global_batch // (p.dp * p.micro_batch) end
  p.global_batch = p.dp * p.micro_batch * p.micro_batches
end

local function raise_violations(found, near)
  local object = error_module.new("plan", "%s", table.concat(found, "; "))
  object.violations, object.refusal = found, "plan: " .. table.concat(found, "; ", 1, #found - (near and 1 or 0))
  error(error_module.label(object, "plan"), 0)
end

--- A copy of a clean plan, to be changed. Overlaps with their default value, and bytes of optimizer states, are open
--- again if they were not given, so that they follow the changed fields.
---@param given table? the fields that the user gave
function plan.reopened(p, given)
  local q = merged(p)
  if (given or {}).optimizer_bytes == nil and q.optimizer_bytes == fields.adam_bytes(p) then q.optimizer_bytes = nil end
  for _, name in ipairs(plan.open_overlaps(given or {})) do
    if q[name] == plan.default(p, fields.list[fields.position[name]]) then q[name] = nil end
  end
  return q
end

--- All violations of a plan as a list of messages (empty: valid), the clean plan, and whether the last message names
--- the nearest valid plans.
---@param model table? from ett.model
---@param cluster table? from ett.cluster
function plan.violations(given, model, cluster)
  local found, clean = schema.violations(given, plan.schema)
  clean.stack = clean.stack or cluster and cluster.stack
  local usable = #found == 0 -- the types are right, so the rules can be checked
  if type(given) == "table" and given.micro_batches == nil and given.global_batch == nil then
    found[#found + 1] = "missing field 'micro_batches' (a positive integer), or 'global_batch' in its place"
  end
  local before = #found
  if usable then
    clean.rank_order = ranks.completed(clean.rank_order, clean)
    check_fields(clean, found)
  end
  if not usable or #found > before then return found, clean end
  add_defaults(clean, given)
  local broken, near = plan_rules.broken(clean, model, cluster), {}
  table.move(broken, 1, #broken, #found + 1, found)
  if #broken > 0 then
    near = plan_rules.nearest(clean, model, cluster)
    if #near > 0 then
      local devices = clean.pp * clean.tp * clean.cp * clean.dp
      found[#found + 1] = ("nearest passing plans on %d device%s: %s"):format(
        devices, devices == 1 and "" or "s", table.concat(near, ", or "))
    end
  end
  if #found > 0 then return found, clean, #near > 0 end
  add_batches(clean)
  return found, clean
end

--- A clean plan, or an error object that lists every violation; its `refusal` omits the nearest valid plans.
function plan.new(given, model, cluster)
  if model ~= nil then schema.argument(model, "model", "ett.plan.new", "model") end
  local found, clean, near = plan.violations(given, model, cluster)
  if #found > 0 then raise_violations(found, near) end
  return clean
end

--- The clean plan of given fields with a change, faster than plan.new: raises an error if a rule refuses the plan, and
--- checks no single field.
---@param p table the clean plan of the given fields
---@param change table<string, any> valid values of fields that `given` leaves open
function plan.changed(p, given, change, model, cluster)
  local q = merged(p, change)
  q.micro_batches, q.global_batch, q.optimizer_bytes = given.micro_batches, given.global_batch, given.optimizer_bytes
  add_defaults(q, merged(given, change))
  local broken = plan_rules.broken(q, model, cluster)
  if #broken > 0 then raise_violations(broken) end
  add_batches(q)
  return q
end

-- Raises if an argument is no plan of ett.plan.new.
local function check_plan(p, where)
  schema.argument(p, "table", where, "p")
  if not (p.global_batch and p.pp) then
    error_module.raise("argument", "%s: argument 'p' must be a plan of ett.plan.new, got other fields", where)
  end
end

function plan.devices(p)
  check_plan(p, "ett.plan.devices")
  return p.pp * p.tp * p.cp * p.dp
end

--- Tokens of one step over all replicas.
function plan.tokens(p)
  check_plan(p, "ett.plan.tokens")
  local exact = (p.dp + 0.0) * p.micro_batch * p.micro_batches * p.seq
  return exact < 2 ^ 53 and p.dp * p.micro_batch * p.micro_batches * p.seq or exact
end

--- Layers per stage as DeepSpeed splits a GPT-NeoX model: evenly over its list of modules. Two modules precede the
--- layers (embedding, a cast) and three follow them (a cast, the norm, the head). The first stages take the remainder.
---@return integer[] split
function plan.deepspeed_split(layers, pp)
  layers = schema.argument(layers, "count", "ett.plan.deepspeed_split", "layers")
  pp = schema.argument(pp, "count", "ett.plan.deepspeed_split", "pp")
  if pp > fields.schema.pp.most then
    error_module.raise("argument", "ett.plan.deepspeed_split: argument 'pp' must be at most %d, got %d",
      fields.schema.pp.most, pp)
  end
  if pp == 1 then return { layers } end
  local slots, split = layers + 5, {}
  for stage = 1, pp do split[stage] = slots // pp + (stage <= slots % pp and 1 or 0) end
  split[1], split[pp] = split[1] - 2, split[pp] - 3
  if split[1] < 0 or split[pp] < 0 then
    error_module.raise("plan", "pp = %d is too large: with %d layers, DeepSpeed's split has at most pp = %d",
      pp, layers, math.max(1, slots // 3))
  end
  return split
end

return plan

--- Variations of a step: a part of the machine that is 10 % faster, and other values of the fields of its plan.
local error_module = require "ett.base.error"
local estimate = require "ett.step.estimate"
local faster = require "ett.step.faster"
local merged = require "ett.base.merged"
local plan_fields = require "ett.plan.fields"
local plan_module = require "ett.plan"
local share = require "ett.base.share"
local stacks = require "ett.operator.stack"
local times_module = require "ett.step.times"

local what_if = {}

--- An estimate without an interval; or nil, and why the plan is refused. Raises other errors, such as an interrupt.
---@param what table model, cluster, times, plan
function what_if.estimate(what)
  local ok, e = pcall(estimate.new, { model = what.model, cluster = what.cluster, times = what.times, plan = what.plan,
    interval = false })
  if ok then return e end
  local refused = error_module.from(e)
  if not times_module.refuses[refused.kind] then error(e, 0) end
  return nil, refused.refusal or tostring(refused)
end

--- The change of a step, in percent, if one part of the machine is 10 % faster, for each part.
---@param what table model, cluster, times, plan
---@param shared table? of ett.base.share
---@return table[] { part, step_seconds, percent }
function what_if.gains(what, step_seconds, shared)
  return share.each(shared, #faster.parts, function(i)
    local part = faster.parts[i]
    local e = estimate.new { model = what.model, cluster = faster.cluster(what.cluster, part), plan = what.plan,
      times = faster.times(what.times, part), interval = false }
    return { part = part, step_seconds = e.step_seconds, percent = 100 * (e.step_seconds / step_seconds - 1) }
  end)
end

--- Half of a value, if it is even, and twice the value.
function what_if.powers(value) return { value % 2 == 0 and value // 2 or nil, value * 2 } end

--- Fields that rules allow, or that count, for one value of recompute only.
what_if.of_recompute = { "recompute_keeps", "recompute_layer_ids", "recompute_layers", "recompute_method",
  "recompute_modules" }

--- A plan with some fields changed, on the same number of devices and with the same global batch: dp compensates.
--- Fields that the change would break follow it. nil if no dp compensates.
---@param p table a clean plan
---@param given table? the fields that the user gave: overlaps among them stay
---@param change table<string, any>
function what_if.plan(p, given, change)
  local q = merged(plan_module.reopened(p, given), change)
  local devices, model_ranks = plan_module.devices(p), q.pp * q.tp * q.cp
  if devices % model_ranks ~= 0 then return nil end
  q.dp, q.micro_batches = devices // model_ranks, nil
  if q.tp ~= p.tp and p.etp == p.tp then q.etp = nil end
  if q.tp == 1 and p.tp > 1 then q.sequence_parallel = false end
  if not q.sequence_parallel and p.sequence_parallel then q.overlap_tensor = false end
  if q.pp == 1 and p.pp > 1 then q.schedule, q.vp, q.overlap_sends = "1f1b", 1, false end
  if q.schedule ~= "interleaved" then q.interleave_group = nil end
  if q.pp ~= p.pp or q.vp ~= p.vp then q.split = nil end
  for _, name in ipairs(q.recompute ~= p.recompute and what_if.of_recompute or {}) do q[name] = change[name] end
  return q
end

-- The fields of a plan whose values the stack's software lacks, as a set. Without a stack, every schedule counts.
local function lacked(p, stack)
  local function value(name)
    if p[name] == nil then return plan_module.default(p, plan_fields.list[plan_fields.position[name]]) end
    return p[name]
  end
  local names = { zero = plan_fields.foreign_stage(p, stack) ~= nil }
  for _, name in ipairs { "reshard", "overlap_parameters", "overlap_gradients" } do
    names[name] = not stacks.has(stack, name, value(name))
  end
  names.schedule = p.pp > 1 and stack.name ~= "plain"
    and not (" %s "):format(stack.pipeline_schedules):find((" %s "):format(p.schedule), 1, true)
  if stack.gathers_need_reductions and (p.zero == 1 or p.zero == 2) and value "overlap_parameters" then
    names.overlap_parameters = not value "overlap_gradients"
  end
  return names
end

--- Whether a change of a plan adds a value that the software of its stack lacks: a ZeRO stage, a schedule, an overlap,
--- or weights that stay whole.
---@param p table a clean plan
---@param q table of what_if.plan
function what_if.is_foreign(p, q)
  local stack = stacks.get(q.stack)
  local before = lacked(p, stack)
  for name, is_lacked in pairs(lacked(q, stack)) do
    if is_lacked and not (before[name] and p[name] == q[name]) then return true end
  end
  return false
end

return what_if

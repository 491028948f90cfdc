--- Searches by brute force: a sweep over all values, and the definitions of README.md of ett.search. For
--- spec/fuzz/searches.lua.
--
-- A case c is { model, cluster, times, devices, plan, lists = { field of the space = values }, setting? = another
-- varied field, vary, where?, objective = list, tokens, headroom, keep, limit? = a value of rows, which is at most
-- `most` }.
local ett = require "ett"
local clusters = require "ett.profile.cluster"
local goodput = require "ett.step.goodput"
local random_plans = require "random_plans"
local stacks = require "ett.operator.stack"
local step_core = require "ett.step"

local oracle = {}
local with = random_plans.with

--- The divisors of any of some numbers.
function oracle.divisors(...)
  local list = {}
  for d = 1, math.max(...) do
    for _, n in ipairs { ... } do if n % d == 0 and list[#list] ~= d then list[#list + 1] = d end end
  end
  return list
end

--- Whether a row is the one of those that differ in fields without effect.
local function is_first(r, lists)
  local two_ways = r.schedule == "dualpipe" or r.schedule == "chimera"
  local data = r.dp * r.cp * (two_ways and 2 or 1)
  local sharded = data > 1 or data * r.tp > (r.ep or 1) * (r.etp or r.tp)
  local function first(name)
    local value = lists[name][1]
    for i = 2, name == "zero" and r.shard and #lists.zero or 1 do value = value == 0 and lists.zero[i] or value end
    return r[name] == value
  end
  if not sharded and not (first "zero" and first "overlap_gradients") then return false end
  if not (sharded and r.zero == 3) and not first "reshard" then return false end
  -- Gathers without reductions, unless the search is given no others.
  if sharded and (r.zero == 1 or r.zero == 2) and r.overlap_parameters and not r.overlap_gradients
    and stacks.get(r.stack).gathers_need_reductions
    and (#lists.overlap_parameters > 1 or lists.overlap_gradients[1] or lists.overlap_gradients[2]) then
    return false
  end
  if not (sharded and r.zero > 0) and not first "overlap_parameters" then return false end
  if (r.pp == 1 or r.serial_sends) and not first "overlap_sends" then return false end
  local function placed(order)
    return (order:gsub("%a+", function(axis) return (r[axis] or 1) == 1 and "" or nil end):gsub("%-+", "-")
      :gsub("^%-", ""):gsub("%-$", ""))
  end
  for _, order in ipairs(lists.rank_order) do
    if placed(order) == placed(r.rank_order) then return order == r.rank_order end
  end
end

--- All rows of a case by a sweep: those that fit, and for which the condition holds.
function oracle.rows(c)
  local rows, over, plan, r = {}, with(c.lists, { dp = oracle.divisors(c.devices) }), with(c.plan, {}), nil
  if c.setting then over[c.setting] = c.vary[c.setting] end
  for name in pairs(over) do plan[name] = nil end
  local s = ett.sweep { model = c.model, cluster = c.cluster, times = c.times, plan = plan, over = over,
    devices = c.devices }
  local own = { math = math, nodes = math.ceil(c.devices / c.cluster.gpus_per_node) }
  local test = load("return " .. (c.where or "true"), "where", "t", setmetatable({}, { __index = function(_, name)
    return own[name] or r[name]
  end }))
  for _, row in ipairs(s.rows) do
    r = setmetatable(row, { __index = plan })
    local fits = r.memory_bytes <= c.cluster.device.memory_bytes * (1 - c.headroom)
    if fits and is_first(r, c.lists) and test() then rows[#rows + 1] = r end
  end
  return rows
end

local function plan_of(c, r)
  local p = with(c.plan, { dp = r.dp })
  for name in pairs(c.lists) do p[name] = r[name] end
  if c.setting then p[c.setting] = r[c.setting] end
  return p
end

function oracle.estimate(c, r)
  return ett.estimate { model = c.model, cluster = c.cluster, times = c.times, plan = plan_of(c, r), tokens = c.tokens,
    interval = false }
end

--- The value of a row in an objective or a limit; the smaller, the better.
function oracle.value(c, r, name)
  if name == "memory_bytes" or name == "step_seconds" then return r[name] end
  if name == "devices" then return c.devices end
  if name == "seq" then return -(r.seq or c.plan.seq) end
  local tokens = (r.seq or c.plan.seq) * (r.global_batch or c.plan.global_batch)
  if name == "tokens_per_second" then return r.step_seconds / tokens end
  if name == "tokens_per_second_per_device" then return r.step_seconds * c.devices / tokens end
  local e = oracle.estimate(c, r)
  return name == "days" and e.run_days or name == "dollars" and e.run_dollars or e.run_kwh
end

local of_run = { days = true, dollars = true, kwh = true }

--- Whether the days, dollars and energy of a case's runs grow with the step: not needed, or no interval of checkpoints
--- of several steps is longer than the best.
function oracle.grows_with_steps(c, rows)
  local reads = of_run[c.limit] or false
  for _, name in ipairs(c.objective) do reads = reads or of_run[name] or false end
  local given = c.plan.checkpoint_every_seconds or c.setting == "checkpoint_every_seconds"
  for _, r in ipairs(reads and given and rows or {}) do
    local e = oracle.estimate(c, r)
    local used, step = e.checkpoint_interval_seconds, e.varied_mean_seconds or e.step_seconds
    if used and used > 1.5 * step
      and used > goodput.interval(e.checkpoint_write_seconds, e.failure_interval_seconds) then return false end
  end
  return true
end

--- The rows to be kept, as { values of the objectives, step, memory }.
function oracle.best(c, rows)
  local list, seen, kept = {}, {}, {}
  for _, r in ipairs(rows) do
    local own, words = {}, { c.setting and tostring(r[c.setting]) }
    for i, name in ipairs(c.objective) do own[i] = oracle.value(c, r, name) end
    own[#own + 1], own[#own + 2] = r.step_seconds, r.memory_bytes
    for _, name in ipairs(require("ett.base.schema").keys(c.lists)) do
      if not name:find "^overlap" then words[#words + 1] = tostring(r[name]) end
    end
    own.layout = table.concat(words, " ")
    if not c.limit or oracle.value(c, r, c.limit) <= c.most then list[#list + 1] = own end
  end
  table.sort(list, function(a, b)
    for i = 1, #a do if a[i] ~= b[i] then return a[i] < b[i] end end
    return false
  end)
  for _, own in ipairs(list) do
    local wanted = c.objective[2] or not seen[own.layout] and #kept < c.keep
    for _, other in ipairs(c.objective[2] and kept or {}) do
      wanted = wanted and not (other[1] <= own[1] and other[2] <= own[2])
    end
    seen[own.layout] = true
    if wanted then kept[#kept + 1] = own end
  end
  return kept
end

--- Bounds of a row's program and plan, before and after its demands are timed.
function oracle.check_bounds(c, r)
  local p = ett.plan.new(plan_of(c, r), c.model, c.cluster)
  local program <close> = require("ett.step.lower").program(c.model, p, c.times).program
  local demands <close> = step_core.demands()
  local workspace <close> = step_core.workspace()
  local c_plan = require("ett.plan.fields").to_c(p, clusters.placement(c.cluster))
  c_plan.orders = require("ett.plan.schedules").orders(p)
  local memory, _, untimed = program:outline(c_plan, demands, workspace)
  local step, bytes, _, pipeline = program:totals(c_plan, demands, workspace)
  if not step then
    c.times:answer(demands, p.dtype, c.model.hyper.hidden)
    step, bytes, _, pipeline = program:totals(c_plan, demands, workspace)
  end
  local same, least_pipeline, least = program:outline(c_plan, demands, workspace)
  assert(memory == bytes and same == bytes, "memory of the outline")
  assert(math.max(untimed, least) <= step * (1 + 1e-9), "bound above the step")
  assert(least_pipeline <= pipeline * (1 + 1e-9), "bound above the pipeline")
  assert(step == r.step_seconds and bytes == r.memory_bytes, "digits of a row of the sweep")
end

return oracle

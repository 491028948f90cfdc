--- Sweeps: one model on one cluster under every combination of plan fields.
--
--   local s = sweep.new { model = model, cluster = "perlmutter", plan = { seq = 4096, global_batch = 512 },
--     over = { pp = { 1, 2, 4 }, tp = { 1, 2, 4 }, dp = { 1, 2, 4, 8 }, micro_batch = { 1, 2, 4 } } }
--   s.rows[1].step_seconds
--
-- Any field of a plan may be swept. The model is lowered once per program (ett.plan.fields); each plan is then one call
-- of the evaluation that single predictions use, so the totals have the same digits.
local cluster_module = require "ett.profile.cluster"
local error_module = require "ett.base.error"
local estimate = require "ett.step.estimate"
local fields = require "ett.plan.fields"
local fitting = require "ett.search.fitting"
local follows = require "ett.plan.follows"
local lower = require "ett.step.lower"
local plan_module = require "ett.plan"
local plan_rules = require "ett.plan.rules"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"
local step_core = require "ett.step"
local times_module = require "ett.step.times"

local sweep = {}
local Sweep = { __name = "ett.sweep" }
Sweep.__index = Sweep

--- Whether rows with a larger value of an objective come first.
local objectives = { step_seconds = false, memory_bytes = false, tokens_per_second = true,
  tokens_per_second_per_device = true }

local argument_fields = { model = "model", plan = "table", cluster = "cluster", over = "table", devices = "count?",
  objective = { "string", default = "step_seconds" }, profile = "profile?", times = "table?", share = "any?",
  keep = "count?", progress = "function?" }

--- Names of the swept fields, the outermost loop first.
local function swept_names(over)
  local names = {}
  for _, name in ipairs(schema.keys(over)) do
    if not fields.schema[name] then
      error_module.raise("plan", "sweep: unknown field '%s'%s", name,
        error_module.suggestion(name, schema.keys(fields.schema)))
    end
    if type(over[name]) ~= "table" or #over[name] == 0 then
      error_module.raise("plan", "sweep: field '%s' must be a non-empty list of values, got %s", name,
        schema.describe(over[name]))
    end
    names[#names + 1] = name
  end
  table.sort(names, function(a, b) return fields.position[a] < fields.position[b] end)
  return names
end

--- Raises what is wrong with single fields of a plan.
local function check_fields(p)
  local found = {}
  plan_module.check_fields(p, found)
  if #found > 0 then error_module.raise("plan", "sweep: plan: %s", table.concat(found, "; ")) end
end

--- The plan of the first combination, and the checked values of every swept field.
local function checked_plan(given, names)
  local first, values = {}, {}
  for name, value in pairs(given.plan) do first[name] = value end
  for _, name in ipairs(names) do first[name] = given.over[name][1] end
  local base = schema.check(first, fields.schema, "sweep: plan", "plan")
  check_fields(base)
  for _, name in ipairs(names) do
    values[name] = {}
    for i, value in ipairs(given.over[name]) do
      local own = schema.check({ [name] = value }, { [name] = fields.schema[name] }, "sweep: plan", "plan")
      values[name][i] = own[name]
      check_fields(setmetatable(own, { __index = base }))
    end
  end
  if not (base.micro_batches or base.global_batch) then
    error_module.raise("plan", "sweep: missing field 'micro_batches' (a positive integer), or 'global_batch'")
  end
  return base, values
end

--- The lowered program of a plan. `run.lowered` is that of the plan before, until a field changes that it depends on.
local function lowered_of(run, p)
  local key = run.key:of(p)
  if key ~= run.lowered_key then
    local lowered = run.programs[key] or lower.program(run.model, p, run.times)
    local demands = run.demands[p.dtype] or step_core.demands()
    run.programs[key], run.demands[p.dtype] = lowered, demands
    -- The same message may take another time in another dtype: each has its own demands.
    run.lowered_key, run.program, run.own_demands = key, lowered.program, demands
  end
  return run.program, run.own_demands
end

--- Gives C the fields that are converted from several ones, and the orders of a schedule file. Returns the label of the
--- file.
local function convert(run, q)
  for i, field in ipairs(run.converted) do
    local value = field.value:of(q)
    if value ~= run.values_of_c[i] then
      run.values_of_c[i] = value
      run.c_plan:set(field.name, value)
    end
  end
  if schedules.built_in[q.schedule] then return nil end
  local orders, label = run.schedules:orders(q)
  run.c_plan:set("orders", orders)
  return label
end

--- Step seconds, memory and bubble of the plan; what it needs timed and no plan before did is timed first.
local function totals(run, p, q)
  local program, demands = lowered_of(run, p)
  local label = convert(run, q)
  local step, memory, bubble, _, fits
  if label then
    step, memory, bubble, _, fits = schedules.call(label, program.totals, program, run.c_plan, demands, run.workspace)
  else
    step, memory, bubble, _, fits = program:totals(run.c_plan, demands, run.workspace)
  end
  if step then return step, memory, bubble, _, fits end
  run.times:answer(demands, p.dtype, run.model.hyper.hidden)
  return program:totals(run.c_plan, demands, run.workspace)
end

--- Counts a plan as refused.
local function refuse(run, sentence)
  run.refused, run.refusal = run.refused + 1, run.refusal or sentence
  run.refused_at = run.refused_at or run.visited
end

--- Counts a plan as refused whose evaluation failed. Faults that are not the plan's own are raised.
local function failed(run, raised)
  local kind = error_module.from(raised).kind
  if kind ~= "plan" and kind ~= "model" and kind ~= "argument" and kind ~= "limit" then error(raised, 0) end
  refuse(run, tostring(raised))
end

--- The plan's micro-batches, which C and schedules see.
local function count_micro_batches(run, p, q)
  local count = p.micro_batches
  if p.global_batch then count = p.global_batch // (p.dp * p.micro_batch) end
  if count ~= q.micro_batches then
    q.micro_batches = count
    run.c_plan:set("micro_batches", count)
    run.follows:changed "micro_batches"
  end
  return count
end

local sort_rows

--- Adds a row. With run.keep only that many of the best stay, so that a sweep of millions of plans needs no memory.
local function add_row(run, row)
  run.evaluated = run.evaluated + 1
  if not row.fits and not (run.least and run.least.memory_bytes <= row.memory_bytes) then run.least = row end
  run.any_fits = run.any_fits or row.fits
  local rows = run.rows
  rows[#rows + 1] = row
  if run.keep and #rows >= 2 * run.keep + 1000 then
    run.rows = table.move(sort_rows(rows, run.objective), 1, run.keep, 1, {})
  end
end

--- Evaluates one combination. p is one table, changed in place; q the same with the micro-batches of its batch.
local function visit(run, p, q)
  run.visited = run.visited + 1
  if run.progress and run.visited % 1024 == 0 then run.progress(run.visited, run.combinations) end
  if run.share and run.turn % run.share.size() ~= run.share.rank() then return end
  local devices = p.pp * p.tp * p.cp * p.dp
  if run.devices and devices ~= run.devices then return end
  local broken = run.broken:of(p)
  if broken then return refuse(run, broken) end
  local micro_batches = count_micro_batches(run, p, q)
  local ok, step, memory, bubble, _, fits = pcall(totals, run, p, q)
  if not ok then return failed(run, step) end
  local rate = p.dp * p.micro_batch * micro_batches * p.seq / step
  -- Every field from the start: a table that grows is copied at each doubling.
  local row = { step_seconds = step, memory_bytes = memory, bubble_percent = 100 * bubble, devices = devices,
    tokens_per_second = rate, tokens_per_second_per_device = rate / devices,
    fits = fits and memory <= run.memory_limit,
    micro_batches = micro_batches, order = run.share and run.visited }
  local names = run.names
  for i = 1, #names do row[names[i]] = p[names[i]] end
  add_row(run, row)
end

--- Ranks of a job take turns with the programs: gives every rank the rows of all, in the order of one rank.
local function merge(run)
  local share, json = run.share, require "ett.json"
  local own = json.encode { rows = run.rows, refused = run.refused, refusal = run.refusal, at = run.refused_at,
    evaluated = run.evaluated, least = run.least, any_fits = run.any_fits }
  local rows, refused, refusal, first = {}, 0, nil, math.huge
  run.evaluated = 0
  for rank = 0, share.size() - 1 do
    local part = json.decode(share.text_of(rank, own))
    table.move(part.rows, 1, #part.rows, #rows + 1, rows)
    refused, run.evaluated = refused + part.refused, run.evaluated + part.evaluated
    run.any_fits = run.any_fits or part.any_fits
    local least = part.least
    if least and not (run.least and (run.least.memory_bytes < least.memory_bytes
      or run.least.memory_bytes == least.memory_bytes and run.least.order <= least.order)) then
      run.least = least
    end
    if part.at and part.at < first then first, refusal = part.at, part.refusal end
  end
  table.sort(rows, function(a, b) return a.order < b.order end)
  for _, row in ipairs(rows) do row.order = nil end
  run.rows, run.refused, run.refusal = rows, refused, refusal
end

--- Sets a field of the run's plan, in C's copy too.
local function set(run, p, axis, value)
  p[axis.name] = value
  if axis.c then run.c_plan:set(axis.c, axis.convert and axis.convert(value) or value) end
  run.follows:changed(axis.name)
end

local function combinations(run, p, q, depth)
  local axis = run.axes[depth]
  if not axis then return visit(run, p, q) end
  for _, value in ipairs(axis.values) do
    if p[axis.name] ~= value then set(run, p, axis, value) end
    if axis.program then run.turn = run.turn + 1 end
    combinations(run, p, q, depth + 1)
  end
end

--- The swept fields as combinations() takes them: name, values, and how C's copy of the plan is told.
local function axes_of(names, values)
  local axes = {}
  for i, name in ipairs(names) do
    local field = fields.list[fields.position[name]]
    local axis = { name = name, values = values[name], program = field.program }
    if field.c == true then
      axis.c = name
    elseif field.c and not fields.reads_others(field) then
      axis.c, axis.convert = table.unpack(field.c)
    end
    axes[i] = axis
  end
  return axes
end

--- What follows from the plan at hand, each computed again only when a field changes that it reads: the first broken
--- rule, the key of the program, conversions for C of several fields.
local function add_follows(run)
  local all = follows.new()
  run.follows, run.converted = all, {}
  run.broken = all:first(plan_rules.functions(run.model, run.cluster, run.schedules))
  run.key = all:first { function(p) return (lower.key(p, run.placement, run.model)) end }
  for _, field in ipairs(fields.list) do
    if fields.reads_others(field) then
      local name, convert_field = table.unpack(field.c)
      run.converted[#run.converted + 1] = { name = name,
        value = all:first { function(p) return convert_field(p[field[1]], p) end } }
    end
  end
end

-- What an estimate adds of runs, money, energy and variation.
local outlook = { "price_per_step", "run_seconds", "run_price", "run_kwh", "kwh_per_step", "co2_kg_per_step",
  "goodput_percent", "varied_p50_seconds", "varied_p90_seconds", "varied_p99_seconds" }

--- Adds the outlook to every row where a field that decides of it is swept: an estimate each.
local function add_outlook(run, base)
  local swept = false
  for _, name in ipairs(run.names) do swept = swept or fields.list[fields.position[name]].after end
  if not swept then return end
  for _, row in ipairs(run.rows) do
    local p = {}
    for name, value in pairs(base) do p[name] = value end
    for _, name in ipairs(run.names) do p[name] = row[name] end
    p.global_batch, p.micro_batches = nil, row.micro_batches
    local e = estimate.new { model = run.model, cluster = run.cluster, times = run.times, plan = p }
    for _, name in ipairs(outlook) do row[name] = e[name] end
  end
end

--- Rows that fit the device's memory first, then by the objective, then in the order of the combinations. Numbers sort
--- several times faster than rows: rows of one value are put side by side first.
function sort_rows(rows, objective)
  local sorted, sign = {}, objectives[objective] and -1 or 1
  for _, fits in ipairs { true, false } do
    local by_value, list = {}, {}
    for _, row in ipairs(rows) do
      if row.fits == fits then
        local value = sign * row[objective]
        local same = by_value[value]
        if not same then
          by_value[value], list[#list + 1] = { row }, value
        else
          same[#same + 1] = row
        end
      end
    end
    table.sort(list)
    for _, value in ipairs(list) do
      for _, row in ipairs(by_value[value]) do sorted[#sorted + 1] = row end
    end
  end
  return sorted
end

--- A sentence when no row fits: the least memory, and what would fit. nil when one does.
local function nothing_fits(run, base)
  local least = run.least
  if run.any_fits or not least then return nil end
  local own = {}
  for i, name in ipairs(run.names) do own[i] = ("%s=%s"):format(name, tostring(least[name])) end
  local p = {}
  for name, value in pairs(base) do p[name] = value end
  for _, name in ipairs(run.names) do p[name] = least[name] end
  p.global_batch, p.micro_batches = nil, least.micro_batches
  return ("nothing fits the %.2f GB of a device: the least is %.2f GB, with %s; %s"):format(run.memory_limit / 1e9,
    least.memory_bytes / 1e9, table.concat(own, " "), fitting.sentence(run.model, run.cluster, run.times, p))
end

--- Evaluates every combination.
---@param given table { model, cluster, plan = base fields, over = { field = list }, devices?, objective?,
---  profile?, times?, keep?, progress? = function(done, combinations) }; devices keeps only plans on that many, keep
---  only that many of the best rows
function sweep.new(given)
  given = schema.check(given, argument_fields, "ett.sweep", "argument")
  local cluster, objective, over = given.cluster, given.objective, given.over
  if not (type(cluster) == "table" and cluster.path) then cluster = cluster_module.get(cluster) end
  local names = swept_names(over)
  if objectives[objective] == nil then
    error_module.raise("usage", "sweep: unknown objective '%s'%s; known are %s", objective,
      error_module.suggestion(objective, schema.keys(objectives)), table.concat(schema.keys(objectives), ", "))
  end
  local base, values = checked_plan(given, names)
  local workspace <close> = step_core.workspace()
  local run = { model = given.model, cluster = cluster, times = given.times or times_module.new(cluster, given.profile),
    names = names, axes = axes_of(names, values), devices = given.devices,
    memory_limit = require("ett.profile.network.parts").memory(cluster),
    workspace = workspace, placement = cluster_module.placement(cluster),
    c_plan = step_core.kept_plan(fields.to_c(base, cluster_module.placement(cluster))),
    values_of_c = {}, schedules = schedules.memo(), programs = {}, demands = {}, rows = {}, refused = 0,
    visited = 0, turn = 0, share = given.share, objective = objective, evaluated = 0,
    keep = given.keep, progress = given.progress, combinations = 1 }
  for _, list in pairs(values) do run.combinations = run.combinations * #list end
  add_follows(run)
  local p = {}
  for name, value in pairs(base) do p[name] = value end
  if base.global_batch and not over.micro_batches then p.micro_batches = nil end
  combinations(run, p, setmetatable({}, { __index = p }), 1)
  if run.share then merge(run) end
  add_outlook(run, base)
  local unfit = nothing_fits(run, base)
  for _, lowered in pairs(run.programs) do lowered.program:close() end
  for _, demands in pairs(run.demands) do demands:close() end
  run.rows = sort_rows(run.rows, objective)
  if run.keep then run.rows = table.move(run.rows, 1, run.keep, 1, {}) end
  return setmetatable({ cluster = cluster.name, model = given.model.name, fields = names, objective = objective,
    evaluated = run.evaluated, refused = run.refused, refusal = run.refusal, nothing_fits = unfit,
    rows = run.rows, base = base }, Sweep)
end

function Sweep.__tostring(self)
  return require("ett.base.pretty").plain(require("ett.report").sweep(self, 20))
end
function Sweep.__json(self)
  return { cluster = self.cluster, model = self.model, objective = self.objective, evaluated = self.evaluated,
    refused = self.refused, nothing_fits = self.nothing_fits, rows = self.rows, plan = self.base }
end

return setmetatable(sweep, { __call = function(_, given) return sweep.new(given) end })

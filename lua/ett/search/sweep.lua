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
  if not run.lowered then
    local key
    key, run.by_world = lower.key(p, run.placement, run.model)
    run.lowered = run.programs[key] or lower.program(run.model, p, run.times)
    run.programs[key] = run.lowered
  end
  return run.lowered
end

--- Demands of the plans of one dtype: the same message may take another time in another dtype.
local function demands_of(run, dtype)
  local demands = run.demands[dtype]
  if not demands then
    demands = step_core.demands()
    run.demands[dtype] = demands
  end
  return demands
end

--- Sets a field of the run's plan, in C's copy too. Results that do not depend on it stay.
local function set(run, p, name, value)
  if p[name] == value then return end
  p[name] = value
  local field = fields.list[fields.position[name]]
  if field.c == true then
    run.c_plan:set(name, value)
  elseif field.c then
    run.c_plan:set(field.c[1], field.c[2](value, p))
  end
  if run.read[name] then run.broken = nil end
end

--- Conversions that read more than their field.
local function convert(run, p)
  for i, field in ipairs(run.converted) do
    local value = field.c[2](p[field[1]], p)
    if value ~= run.values_of_c[i] then
      run.values_of_c[i] = value
      run.c_plan:set(field.c[1], value)
    end
  end
end

--- Step seconds, memory and bubble of the plan; what it needs timed and no plan before did is timed first.
local function totals(run, p)
  local program, label = lowered_of(run, p).program, nil
  convert(run, p)
  if not schedules.built_in[p.schedule] then
    local orders
    orders, label = run.schedules:orders(p)
    run.c_plan:set("orders", orders)
  end
  local demands = demands_of(run, p.dtype)
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

--- Counts a plan as refused. Faults that are not the plan's own are raised.
local function refuse(run, raised)
  local kind = error_module.from(raised).kind
  if kind ~= "plan" and kind ~= "model" and kind ~= "argument" and kind ~= "limit" then error(raised, 0) end
  run.refused, run.refusal = run.refused + 1, run.refusal or tostring(raised)
  run.refused_at = run.refused_at or run.visited
end

--- The first rule that a plan breaks, or false. What it read of the plan is noted: the answer holds until that changes.
local function broken_rule(run)
  if run.broken == nil then
    run.read = {}
    run.broken = plan_rules.broken(run.view, run.model, run.cluster, run.schedules)[1] or false
  end
  return run.broken
end

--- The plan as rules see it: reads of fields that a sweep changes are noted in run.read.
local function view_of(run, p, base)
  local view = {}
  for name in pairs(fields.schema) do view[name] = base[name] end
  for _, name in ipairs(run.names) do view[name] = nil end
  return setmetatable(view, { __index = function(_, name)
    run.read[name] = true
    return p[name]
  end })
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

--- Evaluates one combination; p is one table, changed in place.
local function visit(run, p)
  run.visited = run.visited + 1
  if run.progress and run.visited % 1024 == 0 then run.progress(run.visited, run.combinations) end
  if run.share and run.turn % run.share.size() ~= run.share.rank() then return end
  if run.from_global then p.micro_batches = nil end
  if run.devices and p.pp * p.tp * p.cp * p.dp ~= run.devices then return end
  local broken = broken_rule(run)
  if broken then return refuse(run, error_module.new("plan", "%s", broken)) end
  if p.global_batch then
    p.micro_batches = p.global_batch // (p.dp * p.micro_batch)
    if p.micro_batches ~= run.micro_batches then
      run.micro_batches = p.micro_batches
      run.c_plan:set("micro_batches", p.micro_batches)
    end
  end
  local ok, step, memory, bubble, _, fits = pcall(totals, run, p)
  if not ok then return refuse(run, step) end
  local devices, micro_batches = p.pp * p.tp * p.cp * p.dp, p.micro_batches
  local rate = p.dp * p.micro_batch * micro_batches * p.seq / step
  -- Every field from the start: a table that grows is copied at each doubling.
  local row = { step_seconds = step, memory_bytes = memory, bubble_percent = 100 * bubble, devices = devices,
    tokens_per_second = rate, tokens_per_second_per_device = rate / devices,
    fits = fits and memory <= run.memory_limit,
    micro_batches = micro_batches, order = run.share and run.visited }
  for _, name in ipairs(run.names) do row[name] = p[name] end
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

local function combinations(run, p, depth)
  local name = run.names[depth]
  if not name then return visit(run, p) end
  local changes_program = fields.list[fields.position[name]].program
  local changes_world = name == "pp" or name == "dp"
  for _, value in ipairs(run.values[name]) do
    set(run, p, name, value)
    if changes_program or changes_world and run.by_world then run.lowered = nil end
    if changes_program then run.turn = run.turn + 1 end
    combinations(run, p, depth + 1)
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
    names = names, values = values, devices = given.devices,
    memory_limit = require("ett.profile.network.parts").memory(cluster),
    from_global = base.global_batch and not over.micro_batches, workspace = workspace,
    placement = cluster_module.placement(cluster),
    c_plan = step_core.kept_plan(fields.to_c(base, cluster_module.placement(cluster))), converted = fields.converted(),
    values_of_c = {}, read = {}, schedules = schedules.memo(), programs = {}, demands = {}, rows = {}, refused = 0,
    visited = 0, turn = 0, share = given.share, objective = objective, evaluated = 0,
    keep = given.keep, progress = given.progress, combinations = 1 }
  for _, list in pairs(values) do run.combinations = run.combinations * #list end
  local p = setmetatable({}, { __index = base })
  run.view = view_of(run, p, base)
  combinations(run, p, 1)
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

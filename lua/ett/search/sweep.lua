--- Sweeps: one model on one cluster under every combination of plan fields.
--
--   local s = sweep.new { model = model, cluster = "perlmutter", plan = { seq = 4096, global_batch = 512 },
--     over = { pp = { 1, 2, 4 }, tp = { 1, 2, 4 }, dp = { 1, 2, 4, 8 }, micro_batch = { 1, 2, 4 } } }
--   s.rows[1].step_seconds
--
-- Any field of a plan may be swept. The model is lowered once per program (ett.plan.fields). The plans under all values
-- of the fields that only C reads are one call, a block. C evaluates each as it does single predictions, so the totals
-- have the same digits.
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
  local converted = run.converted
  for i = 1, #converted do
    local field = converted[i]
    if field.value.stale then
      local value = field.value:of(q)
      if value ~= field.last then
        field.last = value
        run.c_plan:set(field.name, value)
      end
    end
  end
  if schedules.built_in[q.schedule] then return nil end
  local orders, label = run.schedules:orders(q)
  run.c_plan:set("orders", orders)
  return label
end

--- The program of the plan at hand, its demands, and the label of its schedule's faults; C's copy of the plan is ready.
local function prepare(run, p, q)
  local program, demands = lowered_of(run, p)
  return program, demands, convert(run, q)
end

--- Counts plans as refused, of which the first is number `at`.
local function refuse(run, sentence, at, count)
  run.refused, run.refusal = run.refused + count, run.refusal or sentence
  run.refused_at = run.refused_at or at
end

--- Counts plans as refused whose evaluation failed. Faults that are not the plans' own are raised.
local function failed(run, raised, at, count)
  local kind = error_module.from(raised).kind
  if kind ~= "plan" and kind ~= "model" and kind ~= "argument" and kind ~= "limit" then error(raised, 0) end
  refuse(run, tostring(raised), at, count)
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

--- Rows that fit the device's memory first, then by the objective, then in the order of the combinations; at most
--- `most` of them.
local function sort_rows(rows, objective, most)
  return step_core.sorted(rows, objective, objectives[objective], most)
end

--- Notes the rows from number `from` on. With run.keep only that many of the best stay: a sweep of millions of plans
--- needs no more memory than one of thousands.
local function note_rows(run, from)
  local rows = run.rows
  run.evaluated = run.evaluated + #rows - from + 1
  for i = from, run.any_fits and 0 or #rows do
    local row = rows[i]
    if row.fits then
      run.any_fits = true
      break
    elseif not (run.least and run.least.memory_bytes <= row.memory_bytes) then
      run.least = row
    end
  end
  if run.keep and #rows >= 2 * run.keep + 1000 then run.rows = sort_rows(rows, run.objective, run.keep) end
end

--- Whether C alone reads a swept field: then the rows under all of its values are one call.
local function only_c_reads(run, axis)
  return not run.own_orders and axis.c and not axis.program and not run.own_reads[axis.name]
    and not run.follows:reads(axis.name)
end

--- Makes a block of the innermost fields that only C reads; run.outer fields are outside it. Rows share these.
local function choose_block(run, p)
  local axes, outer, list = run.axes, #run.axes, {}
  while outer > 0 and only_c_reads(run, axes[outer]) do outer = outer - 1 end
  run.known_reads, run.outer, run.block_size, run.shared = run.follows.names, outer, 1, {}
  for i = 1, outer do run.shared[axes[i].name] = p[axes[i].name] end
  for i = outer + 1, #axes do
    local axis, values = axes[i], {}
    for k, value in ipairs(axis.values) do
      if axis.convert then value = axis.convert(value) end
      values[k] = value
    end
    list[#list + 1] = { name = axis.name, field = axis.c, values = axis.values, c = values }
    run.block_size = run.block_size * #values
  end
  run.block = step_core.block(list)
end

--- Evaluates the block's plans; what they need timed and no plan before did is timed first.
local function evaluate(run, p, before, program, demands, label)
  local rows, first, shared, size = run.rows, 1, run.shared, run.block_size
  local known, tokens = #rows, p.dp * p.micro_batch * shared.micro_batches * p.seq
  while first <= size do
    local at, fault = schedules.call(label, program.rows, program, run.c_plan, demands, run.workspace, run.block, first,
      shared, rows, tokens, shared.devices, run.memory_limit, run.share and before)
    local ok
    if at > size then
      break
    elseif not fault then
      ok, fault = pcall(run.times.answer, run.times, demands, p.dtype, run.model.hyper.hidden)
    else
      ok, fault = pcall(schedules.call, label, error, fault, 0)
    end
    if not ok then failed(run, fault, before + at, 1) end
    first = ok and at or at + 1
  end
  note_rows(run, known + 1)
end

local combinations

--- Evaluates the combinations of one block. p is one table, changed in place; q the same with the micro-batches of its
--- batch.
local function visit(run, p, q)
  local before, count, outer = run.visited, run.block_size, run.outer
  local devices = p.pp * p.tp * p.cp * p.dp
  run.visited = before + count
  if run.progress and run.visited // 1024 > before // 1024 then run.progress(run.visited, run.combinations) end
  if run.share and run.turn % run.share.size() ~= run.share.rank() then return end
  if run.devices and devices ~= run.devices then return end
  local broken = run.broken:of(p)
  local ok, program, demands, label, micro_batches
  if not broken then
    micro_batches = count_micro_batches(run, p, q)
    ok, program, demands, label = pcall(prepare, run, p, q)
  end
  if run.known_reads ~= run.follows.names then
    choose_block(run, p)
    if run.outer ~= outer then -- more than C reads a field of the block
      run.visited = before
      return combinations(run, p, q, outer + 1)
    end
  end
  if broken then return refuse(run, broken, before + 1, count) end
  if not ok then return failed(run, program, before + 1, count) end
  run.shared.devices, run.shared.micro_batches = devices, micro_batches
  evaluate(run, p, before, program, demands, label)
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
  local name = axis.name
  p[name], run.shared[name] = value, value
  if axis.c then run.c_plan:set(axis.c, axis.convert and axis.convert(value) or value) end
  run.follows:changed(name)
end

function combinations(run, p, q, depth)
  if depth > run.outer then return visit(run, p, q) end
  local axis = run.axes[depth]
  local name, values = axis.name, axis.values
  for i = 1, #values do
    if p[name] ~= values[i] then set(run, p, axis, values[i]) end
    if axis.program then run.turn = run.turn + 1 end
    combinations(run, p, q, depth + 1)
  end
end

--- Fields that visit() and evaluate() read, or that decide of the schedule's orders.
local own_reads = {}
for _, name in ipairs { "pp", "tp", "cp", "dp", "vp", "micro_batch", "micro_batches", "global_batch", "seq", "dtype",
  "schedule", "split" } do own_reads[name] = true end

--- Whether a schedule file orders units of a plan: it may read any field.
local function own_orders(base, values)
  for _, name in ipairs(values.schedule or { base.schedule }) do
    if not schedules.built_in[name] then return true end
  end
  return false
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
  local changing = { micro_batches = true }
  for _, name in ipairs(run.names) do changing[name] = true end
  local all = follows.new(changing)
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

--- Collects garbage less often, until the value returned is closed. nil for large sweeps: a row takes a kilobyte.
local function collect_less(plans)
  if plans > 20000 then return nil end
  local before = collectgarbage("setpause", 400)
  return setmetatable({}, { __close = function() collectgarbage("setpause", before) end })
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
    schedules = schedules.memo(), programs = {}, demands = {}, rows = {}, refused = 0,
    own_reads = own_reads, own_orders = own_orders(base, values), visited = 0, turn = 0, share = given.share,
    objective = objective, evaluated = 0, keep = given.keep, progress = given.progress, combinations = 1 }
  for _, list in pairs(values) do run.combinations = run.combinations * #list end
  local _ <close> = collect_less(run.combinations)
  add_follows(run)
  local p = {}
  for name, value in pairs(base) do p[name] = value end
  choose_block(run, p)
  if base.global_batch and not over.micro_batches then p.micro_batches = nil end
  combinations(run, p, setmetatable({}, { __index = p }), 1)
  if run.share then merge(run) end
  add_outlook(run, base)
  local unfit = nothing_fits(run, base)
  for _, lowered in pairs(run.programs) do lowered.program:close() end
  for _, demands in pairs(run.demands) do demands:close() end
  run.rows = sort_rows(run.rows, objective, run.keep)
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

--- Sweeps: one model on one cluster under every combination of plan fields.
--
--   local s = sweep.new { model = model, cluster = "perlmutter", plan = { seq = 4096, global_batch = 512 },
--     over = { pp = { 1, 2, 4 }, tp = { 1, 2, 4 }, dp = { 1, 2, 4, 8 }, micro_batch = { 1, 2, 4 } } }
--   s.rows[1].step_seconds
--
-- Any field of a plan may be swept. The model is lowered once per program (ett.plan.fields). Combinations are numbered,
-- and C finds their values by the number. The plans under all values of the fields that only C reads are one call, a
-- block. C evaluates each as it does single predictions, so the totals have the same digits.
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

local objectives = { step_seconds = true, memory_bytes = true, tokens_per_second = true,
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

--- Finds the lowered program of a plan: that of the plan before, until a field changes that it depends on.
local function find_program(run, p)
  local key = run.key:of(p)
  if key == run.lowered_key then return end
  run.lowered_key = nil
  local lowered = run.programs[key] or lower.program(run.model, p, run.times)
  run.programs[key] = lowered
  -- The same message may take another time in another dtype: each has its own demands.
  run.demands[p.dtype] = run.demands[p.dtype] or step_core.demands()
  run.lowered_key, run.program, run.own_demands = key, lowered.program, run.demands[p.dtype]
end

--- Prepares C's copy of the plan. Finds its program, its demands, the orders of its schedule file and the label of
--- their faults, and sets the fields that are computed from several others.
local function prepare(run, p, q)
  if run.key.stale or not run.lowered_key then find_program(run, p) end
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
  if run.own_orders then run.orders, run.label = run.schedules:orders(q) end
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

local function micro_batches_of(p)
  return p.global_batch and p.global_batch // (p.dp * p.micro_batch) or p.micro_batches
end

--- Whether C alone reads a swept field: then the plans under all of its values are one call.
local function only_c_reads(run, axis)
  return not run.own_orders and axis.field and not axis.program and not run.own_reads[axis.name]
    and not run.follows:reads(axis.name)
end

--- Makes a block of the innermost fields that only C reads; run.outer fields are outside it.
local function choose_block(run)
  local axes, outer = run.axes, #run.axes
  while outer > 0 and only_c_reads(run, axes[outer]) do outer = outer - 1 end
  run.known_reads, run.outer = run.follows.names, outer
  run.block_size = outer > 0 and axes[outer].every or run.combinations
end

--- Evaluates the plans from number `first` to `last`, which agree in all that is given. What they need timed and no
--- plan before did is timed first.
local function evaluate(run, p, first, last, micro_batches, devices)
  local tokens, demands, label = p.dp * p.micro_batch * micro_batches * p.seq, run.own_demands, run.label
  local sweep_in_c = run.program.sweep
  while first <= last do
    local at, fault = sweep_in_c(run.program, run.c_plan, demands, run.workspace, run.list, first, last, micro_batches,
      tokens, devices, run.memory_limit, run.orders)
    if not at then break end
    local ok
    if not fault then
      ok, fault = pcall(run.times.answer, run.times, demands, p.dtype, run.model.hyper.hidden)
    else
      ok, fault = pcall(schedules.call, label, error, fault, 0)
    end
    if not ok then failed(run, fault, at, 1) end
    first = ok and at or at + 1
  end
  if run.keep and run.list:count() >= 2 * run.keep + 1000 then run.list:sort(run.objective, run.keep) end
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
  local broken, ok, fault = run.broken.answer, true, nil
  if run.broken.stale then broken = run.broken:of(p) end
  if not broken then
    local micro_batches = micro_batches_of(p)
    if micro_batches ~= q.micro_batches then
      q.micro_batches = micro_batches
      run.follows:changed "micro_batches"
    end
    ok, fault = pcall(prepare, run, p, q)
  end
  if run.known_reads ~= run.follows.names then
    choose_block(run)
    if run.outer ~= outer then -- more than C reads a field of the block
      run.visited = before
      return combinations(run, p, q, outer + 1)
    end
  end
  if broken then return refuse(run, broken, before + 1, count) end
  if not ok then return failed(run, fault, before + 1, count) end
  evaluate(run, p, before + 1, before + count, q.micro_batches, devices)
end

--- Ranks of a job take turns with the programs: gives every rank the results of all.
local function merge(run)
  local share, json = run.share, require "ett.json"
  local own = json.encode { refused = run.refused, refusal = run.refusal, at = run.refused_at }
  local results, refused, refusal, first = run.list:take(), 0, nil, math.huge
  for rank = 0, share.size() - 1 do
    local part = json.decode(share.text_of(rank, own))
    run.list:give(share.text_of(rank, results))
    refused = refused + part.refused
    if part.at and part.at < first then first, refusal = part.at, part.refusal end
  end
  run.refused, run.refusal = refused, refusal
end

--- Sets a field of the run's plan, in C's copy too where C does not find it itself.
local function set(run, p, axis, value)
  p[axis.name] = value
  if axis.c and not axis.field then run.c_plan:set(axis.c, axis.convert and axis.convert(value) or value) end
  run.follows:changed(axis.name)
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

--- The swept fields as combinations() takes them: name, values, `every` (neighbouring combinations that share a value),
--- and how C learns the value: it has all of a `field` (in_c), and is told others (`c`, converted) as they change.
local function axes_of(names, values, base)
  local axes, of_c, every = {}, {}, 1
  for _, name in ipairs(step_core.plan_fields()) do of_c[name] = not (base.split or values.split) end
  for i = #names, 1, -1 do
    local name = names[i]
    local field = fields.list[fields.position[name]]
    local axis = { name = name, values = values[name], count = #values[name], every = every, program = field.program,
      in_c = {} }
    if field.c == true then
      axis.c = name
    elseif field.c and not fields.reads_others(field) then
      axis.c, axis.convert = table.unpack(field.c)
    end
    axis.field = of_c[axis.c] and axis.c or nil
    for k, value in ipairs(axis.field and axis.values or {}) do
      if axis.convert then value = axis.convert(value) end
      axis.in_c[k] = value
    end
    axes[i], every = axis, every * axis.count
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

--- Sets the fields of combination `number` in a plan or a row.
local function set_fields(axes, number, p)
  for _, axis in ipairs(axes) do p[axis.name] = axis.values[(number - 1) // axis.every % axis.count + 1] end
end

--- A combination as a plan whose micro-batches are given.
local function plan_of(axes, base, number)
  local p = {}
  for name, value in pairs(base) do p[name] = value end
  set_fields(axes, number, p)
  p.micro_batches, p.global_batch = micro_batches_of(p), nil
  return p
end

--- The rows as a list. Each is made when it is read: results take 64 bytes a plan, rows a kilobyte.
local function rows_of(list, axes, base)
  local Rows = {}
  function Rows.__index(rows, i)
    local row = {}
    local number = math.type(i) == "integer" and list:row(i, row)
    if not number then return nil end
    set_fields(axes, number, row)
    row.micro_batches = micro_batches_of(setmetatable({}, { __index = function(_, name)
      return row[name] or base[name]
    end }))
    rows[i] = row
    return row
  end
  function Rows.__len() return list:count() end
  function Rows.__pairs(rows) return ipairs(rows) end
  function Rows.__json(rows) return table.move(rows, 1, #rows, 1, {}) end
  return setmetatable({}, Rows)
end

--- Adds the outlook to every row where a field that decides of it is swept: an estimate each.
local function add_outlook(run, base)
  local swept = false
  for _, axis in ipairs(run.axes) do swept = swept or fields.list[fields.position[axis.name]].after end
  for i = 1, swept and #run.rows or 0 do
    local e = estimate.new { model = run.model, cluster = run.cluster, times = run.times,
      plan = plan_of(run.axes, base, run.list:row(i, {})) }
    for _, name in ipairs(outlook) do run.rows[i][name] = e[name] end
  end
end

--- A sentence when no row fits: the least memory, and what would fit. nil when one does.
local function nothing_fits(run, base)
  local _, any_fits, number, bytes = run.list:sum()
  if any_fits or not number then return nil end
  local p, own = plan_of(run.axes, base, number), {}
  for i, axis in ipairs(run.axes) do
    own[i] = ("%s=%s"):format(axis.name, tostring(axis.values[(number - 1) // axis.every % axis.count + 1]))
  end
  return ("nothing fits the %.2f GB of a device: the least is %.2f GB, with %s; %s"):format(run.memory_limit / 1e9,
    bytes / 1e9, table.concat(own, " "), fitting.sentence(run.model, run.cluster, run.times, p))
end

--- Collects garbage less often, until the value returned is closed.
local function collect_less()
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
  if not objectives[objective] then
    error_module.raise("usage", "sweep: unknown objective '%s'%s; known are %s", objective,
      error_module.suggestion(objective, schema.keys(objectives)), table.concat(schema.keys(objectives), ", "))
  end
  local base, values = checked_plan(given, names)
  local workspace <close> = step_core.workspace()
  local axes, c_plan = axes_of(names, values, base), fields.to_c(base, cluster_module.placement(cluster))
  c_plan.micro_batches = 1 -- as orders, given with each call
  if not schedules.built_in[base.schedule] then c_plan.schedule = "1f1b" end
  local run = { model = given.model, cluster = cluster, times = given.times or times_module.new(cluster, given.profile),
    names = names, axes = axes, list = step_core.combinations(axes), devices = given.devices,
    memory_limit = require("ett.profile.network.parts").memory(cluster),
    workspace = workspace, placement = cluster_module.placement(cluster), c_plan = step_core.kept_plan(c_plan),
    schedules = schedules.memo(), programs = {}, demands = {}, refused = 0,
    own_reads = own_reads, own_orders = own_orders(base, values), visited = 0, turn = 0, share = given.share,
    objective = objective, keep = given.keep, progress = given.progress,
    combinations = axes[1] and axes[1].every * axes[1].count or 1 }
  local _ <close> = collect_less()
  add_follows(run)
  local p = {}
  for name, value in pairs(base) do p[name] = value end
  choose_block(run)
  if base.global_batch and not over.micro_batches then p.micro_batches = nil end
  combinations(run, p, setmetatable({}, { __index = p }), 1)
  if run.share then merge(run) end
  local unfit = nothing_fits(run, base)
  for _, lowered in pairs(run.programs) do lowered.program:close() end
  for _, demands in pairs(run.demands) do demands:close() end
  run.list:sort(objective, run.keep)
  run.rows = rows_of(run.list, axes, base)
  add_outlook(run, base)
  return setmetatable({ cluster = cluster.name, model = given.model.name, fields = names, objective = objective,
    evaluated = run.list:sum(), refused = run.refused, refusal = run.refusal, nothing_fits = unfit,
    rows = run.rows, base = base }, Sweep)
end

function Sweep.__tostring(self)
  return require("ett.base.pretty").plain(require("ett.report").sweep(self, 20))
end
function Sweep.__json(self)
  return { cluster = self.cluster, model = self.model, objective = self.objective, evaluated = self.evaluated,
    refused = self.refused, nothing_fits = self.nothing_fits, rows = getmetatable(self.rows).__json(self.rows),
    plan = self.base }
end

return setmetatable(sweep, { __call = function(_, given) return sweep.new(given) end })

--- Sweeps: one model on one cluster under every combination of plan fields.
--
--   local s = sweep.new { model = model, cluster = "perlmutter", plan = { seq = 4096, global_batch = 512 },
--     over = { pp = { 1, 2, 4 }, tp = { 1, 2, 4 }, dp = { 1, 2, 4, 8 }, micro_batch = { 1, 2, 4 } } }
--   s.rows[1].step_seconds
--
-- Any field of a plan may be swept, and hyper-parameters (ett.search.models). The model is lowered once per program
-- (ett.plan.fields). Combinations are numbered, and C decodes their values from the number. C calls Lua for derived
-- answers (the first violated rule, the program) once for each relevant set of values. Plans are evaluated like single
-- predictions, so the totals have the same digits.
local cluster_module = require "ett.profile.cluster"
local collect_less = require "ett.base.collect_less"
local error_module = require "ett.base.error"
local estimate = require "ett.step.estimate"
local fields = require "ett.plan.fields"
local fitting = require "ett.search.fitting"
local json = require "ett.json"
local follows = require "ett.plan.follows"
local lower = require "ett.step.lower"
local merged = require "ett.base.merged"
local memory = require "ett.step.memory"
local plan_module = require "ett.plan"
local plan_rules = require "ett.plan.rules"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"
local search_core = require "ett.search"
local step_core = require "ett.step"
local tables = require "ett.report.table"
local times_module = require "ett.step.times"
local values_module = require "ett.search.values"

local sweep = {}
local Sweep = { __name = "ett.sweep" }
local cautions = setmetatable({}, { __mode = "k" }) -- of a sweep: the function that makes its warnings

local objectives = { step_seconds = true, memory_bytes = true, tokens_per_second = true,
  tokens_per_second_per_device = true }

local argument_fields = { model = "model", plan = "table", cluster = "cluster", over = "table", devices = "count?",
  objective = { "string", default = "step_seconds" }, profile = "profile?", times = "table?", share = "any?",
  keep = "count?", progress = "function?" }

--- Names of the swept fields, the outermost loop first.
local function swept_names(over, plan)
  local names = schema.keys(over)
  for _, name in ipairs(names) do
    values_module.checked("sweep", name, over[name])
    if plan[name] ~= nil then error_module.raise("usage", "sweep: field '%s' is both fixed and swept", name) end
  end
  table.sort(names, function(a, b) return fields.position[a] < fields.position[b] end)
  return names
end

--- Raises the errors of single fields of a plan.
local function check_fields(p)
  local found = {}
  plan_module.check_fields(p, found)
  if #found > 0 then error_module.raise("plan", "sweep: plan: %s", table.concat(found, "; ")) end
end

--- The plan of the first combination, with open overlaps absent, and the checked values of every swept field.
local function checked_plan(given, names, cluster)
  local first, values = merged(given.plan), {}
  for _, name in ipairs(names) do first[name] = given.over[name][1] end
  local base = schema.check(first, fields.schema, "sweep: plan", "plan")
  base.stack = base.stack or cluster.stack
  check_fields(base)
  for _, name in ipairs(names) do
    values[name] = values_module.checked("sweep: plan", name, given.over[name])
    for _, value in ipairs(values[name]) do check_fields(setmetatable({ [name] = value }, { __index = base })) end
  end
  if not (base.micro_batches or base.global_batch) then
    error_module.raise("plan", "sweep: missing field 'micro_batches' (a positive integer), or 'global_batch'")
  end
  for _, name in ipairs(plan_module.open_overlaps(first)) do base[name] = nil end
  return base, values
end

local function micro_batches_of(p)
  return p.global_batch and p.global_batch // (p.dp * p.micro_batch) or p.micro_batches
end

--- A plan with the number of micro-batches derived from its batch.
local function with_micro_batches(p)
  return setmetatable({}, { __index = function(_, name)
    if name == "micro_batches" then return micro_batches_of(p) end
    return p[name]
  end })
end

--- Returns a refusal of the plan; re-raises all other errors.
local function refusal_of(raised)
  if not times_module.refuses[error_module.from(raised).kind] then error(raised, 0) end
  return tostring(raised)
end

--- Records the refusal of the plan at which the run stopped.
local function refuse(run, sentence, number)
  run.list:refuse()
  if number < (run.refused_at or math.huge) then run.refused_at, run.refusal = number, sentence end
end

--- Sets the fields of combination `number` in a plan or a row, and returns it.
local function set_fields(axes, number, p)
  for i = 1, #axes do
    local axis = axes[i]
    p[axis.name] = axis.values[(number - 1) // axis.every % axis.count + 1]
  end
  return p
end

--- The index of a program, lowered at its first use; or nil and the reason for failure.
local function program_of(run, key, p)
  local number = run.numbers[key]
  if number then return number end
  local own = setmetatable({ micro_batches = micro_batches_of(p) }, { __index = p })
  local ok, lowered = pcall(lower.program, run.model, own, run.times)
  if not ok then return nil, refusal_of(lowered) end
  -- A message may take different times in different dtypes, and an update under different stacks, so each pair has its
  -- own demands.
  local times = run.times:for_stack(p.stack)
  local by_dtype = run.demands[times] or {}
  run.demands[times], by_dtype[p.dtype] = by_dtype, by_dtype[p.dtype] or step_core.demands()
  number = run.list:program(lowered.program, by_dtype[p.dtype])
  run.numbers[key], run.programs[number] = number, { program = lowered.program, dtype = p.dtype, times = times }
  return number
end

--- Gives C the answer of a function for the plan of a combination.
local function learn(run, which, number)
  local p, one = set_fields(run.axes, number, run.plan), run.functions[which]
  local ok, answer, names, _, count = pcall(follows.record, one.fn, p, run.positions)
  if not ok and one.kind == "rule" then error(answer, 0) end
  if not ok then return refuse(run, refusal_of(answer), number) end
  local axes, refusal = {}, nil
  for i = 1, count do axes[i] = run.positions[names[i]] end
  if one.kind == "program" then
    answer, refusal = program_of(run, answer, p)
  elseif one.kind == "rule" then
    refusal = answer or nil
  end
  if refusal then
    run.sentences[#run.sentences + 1] = refusal
    refusal = #run.sentences
  end
  run.list:learn(which, axes, answer, refusal)
end

-- Stands for the name of a schedule file; its orders are passed with each plan.
local orders_follow = "1f1b"

--- Sets the fields of a combination's plan that C cannot decode, and the orders of its schedule file, which it returns.
local function set_plan(run, number)
  local p = set_fields(run.axes, number, run.plan)
  for _, axis in ipairs(run.set_by_lua) do
    local value = p[axis.name]
    if axis.last ~= value then
      axis.last = value
      if axis.convert then value = axis.convert(value) end
      run.c_plan:set(axis.c, value == "custom" and orders_follow or value)
    end
  end
  local orders
  if run.own_orders then orders, run.label = run.schedules:orders(with_micro_batches(p)) end
  return orders
end

--- Evaluates the plans up to number `last`. All demands that are new with a plan are timed together.
local function evaluate(run, last)
  local list, is_set, orders = run.list, false, nil
  while true do
    local need, number, what = list:run(run.c_plan, run.workspace, last, is_set, orders)
    if not need then break end
    local ok, fault = true, nil
    is_set = need == "set"
    if need == "answer" then
      learn(run, what, number)
    elseif is_set then
      ok, fault = pcall(set_plan, run, number)
      orders = ok and fault or nil
    elseif need == "times" then
      local times, dtype = run.programs[what].times, run.programs[what].dtype
      ok, fault = pcall(times.answer, times, run.demands[times][dtype], dtype, run.model.hyper.hidden)
    else
      ok, fault = pcall(schedules.call, run.label, error, what, 0)
    end
    if not ok then
      refuse(run, refusal_of(fault), number)
      is_set = false
    end
  end
  if run.keep and list:count() >= 2 * run.keep + 1000 then list:sort(run.objective, run.keep) end
end

local chunk = 1024 -- plans between two calls of `progress`

local function evaluate_all(run)
  for first = 1, run.combinations, chunk do
    local last = math.min(first + chunk - 1, run.combinations)
    evaluate(run, last)
    if run.progress and last // chunk > (first - 1) // chunk then run.progress(last, run.combinations) end
  end
  local refused, first, sentence = run.list:refused()
  run.refused = refused
  if first and first < (run.refused_at or math.huge) then
    run.refused_at, run.refusal = first, run.sentences[sentence]
  end
end

--- Ranks of a job evaluate programs in turn; merges the results of all ranks on every rank.
local function merge(run)
  local share = run.share
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

--- Whether a schedule file orders the units; it may read any field of the plan.
local function own_orders(base, values)
  for _, name in ipairs(values.schedule or { base.schedule }) do
    if not schedules.built_in[name] then return true end
  end
  return false
end

--- The swept fields: name, values, `every` (number of consecutive combinations with equal values), and how C gets the
--- value: `field` with all values (in_c), or `c`, converted for each plan.
---@param for_each_plan boolean whether all fields are converted for each plan
local function axes_of(names, values, for_each_plan)
  local axes, set_by_lua, of_c, every = {}, {}, {}, 1
  for _, name in ipairs(step_core.plan_fields()) do of_c[name] = not for_each_plan end
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
    if axis.c and not axis.field then set_by_lua[#set_by_lua + 1] = axis end
    for k, value in ipairs(axis.field and axis.values or {}) do
      if axis.convert then value = axis.convert(value) end
      axis.in_c[k] = value
    end
    axes[i], every = axis, every * axis.count
  end
  return axes, set_by_lua
end

--- Settings that C uses for all plans (ett_combinations_settings).
local function settings_of(run, base, devices)
  local every, share = run.combinations, run.share
  for _, axis in ipairs(run.axes) do every = axis.program and math.min(every, axis.every) or every end
  local settings = { devices = devices, memory_limit = run.memory_limit, share_every = every,
    caller_sets = run.own_orders or #run.set_by_lua > 0, share_rank = share and share.rank(),
    share_size = share and share.size() }
  for _, name in ipairs { "pp", "tp", "cp", "dp", "micro_batch", "seq", "micro_batches", "global_batch" } do
    settings[name] = base[name]
  end
  return settings
end

--- Functions of plans that C calls: the first violated rule, the program, members that depend on several fields.
local function add_functions(run)
  local function add(kind, fn, field) run.functions[run.list:ask(kind, field)] = { kind = kind, fn = fn } end
  for _, rule in ipairs(plan_rules.functions(run.model, run.cluster, run.schedules)) do add("rule", rule) end
  local key_of
  add("program", function(p)
    key_of = key_of
      or fields.program_keys(run.plan, run.positions, not lower.copies_table(run.model) and "pp" or nil)
    return (lower.key(with_micro_batches(p), run.placement, key_of))
  end)
  for _, field in ipairs(fields.list) do
    if fields.reads_others(field) then
      local name, convert_field = table.unpack(field.c)
      add("member", function(p) return convert_field(p[field[1]], with_micro_batches(p)) end, name)
    end
  end
  for _, name in ipairs(plan_module.open_overlaps(merged(run.plan, run.positions))) do
    local field = fields.list[fields.position[name]]
    add("member", function(p) return plan_module.default(p, field) end, name)
  end
end

-- Fields that an estimate adds on runs, money, energy and variation.
local outlook = { "dollars_per_step", "run_days", "run_dollars", "run_kwh", "kwh_per_step", "co2_kg_per_step",
  "goodput_percent", "varied_p50_seconds", "varied_p90_seconds", "varied_p99_seconds" }

--- A combination as a plan with given micro-batches.
local function plan_of(axes, base, number)
  local p = set_fields(axes, number, merged(base))
  p.micro_batches, p.global_batch = micro_batches_of(p), nil
  return p
end

--- The rows as a lazy list: stored results take 64 bytes per plan, a row takes a kilobyte.
---@param add fun(row: table, number: integer)? adds the outlook to the row of a combination
local function rows_of(list, axes, base, add)
  local Rows = {}
  function Rows.__index(rows, i)
    local row = {}
    local number = math.type(i) == "integer" and list:row(i, row)
    if not number then return nil end
    set_fields(axes, number, row)
    row.fit_percent = 100 * memory.chance(row.memory_bytes, row.memory_limit_bytes)
    row.micro_batches = micro_batches_of(setmetatable({}, { __index = function(_, name)
      return row[name] or base[name]
    end }))
    if add then add(row, number) end
    rows[i] = row
    return row
  end
  function Rows.__len() return list:count() end
  function Rows.__pairs(rows) return ipairs(rows) end
  function Rows.__json(rows) return json.array(table.move(rows, 1, #rows, 1, {})) end
  return setmetatable({}, Rows)
end

--- A function that adds the outlook to a row by an estimate; nil if no field that affects it is swept or given.
local function outlook_of(run, base, given)
  local wanted = false
  for _, field in ipairs(fields.list) do
    wanted = wanted or field.after and (given.over[field[1]] or given.plan[field[1]]) ~= nil
  end
  return wanted and function(row, number)
    local e = estimate.new { model = run.model, cluster = run.cluster, times = run.times, interval = false,
      plan = plan_of(run.axes, base, number) }
    for _, name in ipairs(outlook) do row[name] = e[name] end
  end or nil
end

--- The warnings about samples and software of the best row.
local function cautions_of(run, base)
  local number = run.list:row(1, {})
  return number and estimate.cautions(estimate.new { model = run.model, cluster = run.cluster, times = run.times,
    plan = plan_of(run.axes, base, number), interval = false }) or {}
end

--- A message if no row fits: the least memory, and a change that would fit. nil if a row fits.
local function fit_advice(run, base)
  local _, any_fits, number, bytes, limit = run.list:sum()
  if any_fits or not number then return nil end
  local p, own = plan_of(run.axes, base, number), {}
  for i, axis in ipairs(run.axes) do
    own[i] = ("%s=%s"):format(axis.name, tables.value(axis.values[(number - 1) // axis.every % axis.count + 1]))
  end
  local with = own[1] and ", with " .. table.concat(own, " ") or ""
  return ("no estimate is within the %.2f GB of a device: the least is %.2f GB%s; %s"):format(limit / 1e9,
    bytes / 1e9, with, fitting.sentence(run.model, run.cluster, run.times, p))
end

-- Whether rows have steps of different numbers of tokens.
local function tokens_vary(over, base)
  return over.seq or over.global_batch
    or not base.global_batch and (over.micro_batches or over.micro_batch or over.dp)
end

--- Evaluates every combination.
---@param given table { model, cluster, plan = base fields, over = { field = list }, devices?, objective?,
---  profile?, times?, keep?, progress? = function(done, combinations) }; devices: only plans on that number are kept;
---  keep: only that number of the best rows. With `hyper` = { field = list }, model is a function of those
---  hyper-parameters. It may also return a plan that replaces the given one; then `hyper` may hold plan fields, too.
function sweep.new(given)
  if type(given) == "table" and rawget(given, "hyper") ~= nil then
    schema.argument(given.hyper, "table", "ett.sweep", "hyper")
    schema.argument(given.model, "function", "ett.sweep", "model")
    return require("ett.search.models").sweep(given, sweep.new)
  end
  given = schema.check(given, argument_fields, "ett.sweep", "argument")
  local cluster, objective, over = given.cluster, given.objective, given.over
  if not (type(cluster) == "table" and cluster.path) then cluster = cluster_module.get(cluster) end
  local names = swept_names(over, given.plan)
  if not objectives[objective] then
    error_module.raise("usage", "sweep: %s", error_module.unknown("objective", objective, schema.keys(objectives)))
  end
  local base, values = checked_plan(given, names, cluster)
  local workspace <close> = step_core.workspace()
  local orders = own_orders(base, values)
  local axes, set_by_lua = axes_of(names, values, orders or base.split or values.split)
  local placement = cluster_module.placement(cluster)
  local c_plan = fields.to_c(base, placement)
  for _, name in ipairs(plan_module.open_overlaps(base)) do c_plan[name] = false end -- set for each plan
  c_plan.micro_batches = 1 -- orders are passed with each plan
  if not schedules.built_in[base.schedule] then c_plan.schedule = orders_follow end
  if base.split and not values.split then -- its length fits pp and vp only of plans that pass the rules
    c_plan.split = nil
    set_by_lua[#set_by_lua + 1] = { name = "split", c = "split" }
  end
  local run = { model = given.model, cluster = cluster, times = given.times or times_module.new(cluster, given.profile),
    axes = axes, set_by_lua = set_by_lua, positions = {}, plan = merged(base), placement = placement,
    c_plan = step_core.kept_plan(c_plan), workspace = workspace,
    memory_limit = cluster.device.memory_bytes,
    schedules = schedules.memo(), own_orders = orders, functions = {}, sentences = {}, numbers = {}, programs = {},
    demands = {}, refused = 0, share = given.share, objective = objective, keep = given.keep,
    progress = given.progress, combinations = axes[1] and axes[1].every * axes[1].count or 1 }
  run.list = search_core.combinations(axes, settings_of(run, base, given.devices))
  local _ <close> = collect_less()
  for i, name in ipairs(names) do run.positions[name] = i end
  if base.global_batch and not over.micro_batches then run.plan.micro_batches = nil end
  add_functions(run)
  evaluate_all(run)
  if run.share then merge(run) end
  local unfit = fit_advice(run, base)
  for _, own in pairs(run.programs) do own.program:close() end
  for _, by_dtype in pairs(run.demands) do
    for _, demands in pairs(by_dtype) do demands:close() end
  end
  run.list:sort(objective, run.keep)
  run.rows = rows_of(run.list, axes, base, outlook_of(run, base, given))
  local notes = fields.decimals(values.seq or { base.seq }, given.model.hyper)
  table.move(given.model.notes or {}, 1, #(given.model.notes or {}), #notes + 1, notes)
  if objective == "step_seconds" and tokens_vary(over, base) then
    notes[#notes + 1] = "steps of these rows have different numbers of tokens; --objective tokens_per_second compares "
      .. "them"
  end
  local result = setmetatable({ cluster = cluster.name, model = given.model.name, fields = names, objective = objective,
    evaluated = run.list:sum(), refused = run.refused, refusal = run.refusal, fit_advice = unfit,
    notes = notes, rows = run.rows, base = base }, Sweep)
  cautions[result] = function() return cautions_of(run, base) end
  return result
end

-- `warnings` are made at their first use: they need an estimate, which takes as long as a hundred plans.
function Sweep.__index(self, name)
  if name ~= "warnings" then return Sweep[name] end
  local list = cautions[self] and cautions[self]() or {}
  rawset(self, "warnings", list)
  return list
end

--- Whether a row fits, as text (ett.step.memory).
function Sweep.answer(_, row) return memory.answer(row.fits, row.fit_percent / 100) end

function Sweep.__tostring(self)
  return require("ett.base.pretty").plain(require("ett.report").sweep(self, 20))
end
function Sweep.__json(self)
  return { cluster = self.cluster, model = { name = self.model }, objectives = json.array { self.objective },
    evaluated = self.evaluated,
    refused = self.refused, refusal = self.refusal, fit_advice = self.fit_advice,
    notes = json.array(self.notes), warnings = json.array(self.warnings), rows = self.rows,
    plan = self.base }
end

return setmetatable(sweep, { __call = function(_, given) return sweep.new(given) end })

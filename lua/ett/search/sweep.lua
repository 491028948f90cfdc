--- Sweeps: one model on one cluster under every combination of plan fields.
--
--   local s = sweep.new { model = model, cluster = "perlmutter", plan = { seq = 4096, global_batch = 512 },
--     over = { pp = { 1, 2, 4 }, tp = { 1, 2, 4 }, dp = { 1, 2, 4, 8 }, micro_batch = { 1, 2, 4 } } }
--   s.rows[1].step_seconds
--
-- The model is lowered once per (tp, cp, ep, micro-batch, sequence); each plan is then one call of
-- the evaluation that single predictions use, so the totals are the same digits.
local error_module = require "ett.base.error"
local lower = require "ett.step.lower"
local lower_times = require "ett.step.times"
local plan_module = require "ett.plan"
local plan_rules = require "ett.plan.rules"
local schedule = require "ett.schedule"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"

local sweep = {}
local Sweep = { __name = "ett.sweep" }
Sweep.__index = Sweep

-- Outermost first: what a program depends on, so that one is used up before the next.
local order = { "seq", "tp", "cp", "ep", "etp", "micro_batch", "sequence_parallel", "dtype", "pp", "dp", "vp",
  "schedule", "recompute", "zero", "micro_batches", "global_batch" }
local position = {}
for i, name in ipairs(order) do position[name] = i end

local objectives = { step_seconds = "step_seconds", memory_bytes = "memory_bytes",
  tokens_per_second = "tokens_per_second", tokens_per_second_per_device = "tokens_per_second_per_device" }

local fields = { model = "model", plan = "table", cluster = "cluster", over = "table", devices = "count?",
  objective = "string?", profile = "profile?", times = "table?" }

local function check_over(over)
  local names = {}
  for _, name in ipairs(schema.keys(over)) do
    if not plan_module.schema[name] then
      error_module.raise("plan", "sweep: unknown field '%s'%s", name,
        error_module.suggestion(name, schema.keys(plan_module.schema)))
    end
    if type(over[name]) ~= "table" or #over[name] == 0 then
      error_module.raise("plan", "sweep: field '%s' must be a non-empty list of values, got %s", name,
        schema.describe(over[name]))
    end
    names[#names + 1] = name
  end
  table.sort(names, function(a, b)
    local pa, pb = position[a] or 100, position[b] or 100
    if pa ~= pb then return pa < pb end
    return a < b
  end)
  return names
end

--- Raises what is wrong with single fields of a plan.
local function check_fields(p)
  local found = {}
  plan_module.check_fields(p, found)
  if #found > 0 then error_module.raise("plan", "sweep: plan: %s", table.concat(found, "; ")) end
end

--- Visits every combination; p is one table, changed in place.
local function combinations(names, values, p, depth, visit)
  local name = names[depth]
  if not name then return visit(p) end
  for _, value in ipairs(values[name]) do
    p[name] = value
    combinations(names, values, p, depth + 1, visit)
  end
end

-- Fields of the C plan that a sweep may change, and what they are called in a plan.
local function update_c_plan(c, p)
  c.pp, c.tp, c.cp, c.ep, c.etp, c.dp, c.vp = p.pp, p.tp, p.cp, p.ep, p.etp, p.dp, p.vp
  c.micro_batches, c.schedule, c.recompute, c.zero = p.micro_batches, p.schedule, p.recompute, p.zero
end

-- Fields that update_c_plan does not carry: they make a fresh C plan.
local rare = { "dtype", "gradient_dtype", "optimizer_bytes", "bucket_bytes", "gradient_all_reduce", "overlap_gradients",
  "overlap_parameters", "overlap_all_to_all", "overlap_sends", "serial_sends", "deduplicate_tokens", "scatter_sends",
  "accumulate_gradients", "sequence_parallel", "clip_gradients", "split" }

--- Evaluates every combination.
---@param given table { model, cluster, plan = base fields, over = { field = list }, devices?, objective?,
---  profile?, times? }; devices keeps only plans on that many
function sweep.new(given)
  given = schema.check(given, fields, "ett.sweep", "argument")
  local cluster = given.cluster
  if not (type(cluster) == "table" and cluster.path) then cluster = require("ett.profile.cluster").get(cluster) end
  local model, over = given.model, given.over
  local names = check_over(over)
  local objective = objectives[given.objective or "step_seconds"]
  if not objective then
    error_module.raise("usage", "sweep: unknown objective '%s'%s; known are %s", tostring(given.objective),
      error_module.suggestion(given.objective, schema.keys(objectives)), table.concat(schema.keys(objectives), ", "))
  end
  local first = {}
  for name, value in pairs(given.plan) do first[name] = value end
  for _, name in ipairs(names) do first[name] = over[name][1] end
  local base = schema.check(first, plan_module.schema, "sweep: plan", "plan")
  check_fields(base)
  -- Each swept value must be of its field's kind, whatever the others are.
  local values = {}
  for _, name in ipairs(names) do
    values[name] = {}
    for i, value in ipairs(over[name]) do
      local trial = setmetatable({ [name] = value }, { __index = base })
      local own = schema.check({ [name] = trial[name] }, { [name] = plan_module.schema[name] }, "sweep: plan", "plan")
      values[name][i], trial[name] = own[name], own[name]
      check_fields(trial)
    end
  end
  if not (base.micro_batches or base.global_batch) then
    error_module.raise("plan", "sweep: missing field 'micro_batches' (a positive integer), or 'global_batch'")
  end
  local from_global = given.plan.global_batch or over.global_batch
  local swept_rarely = false
  for _, name in ipairs(rare) do swept_rarely = swept_rarely or over[name] ~= nil end

  local times = given.times or lower_times.new(cluster, given.profile)
  local demands <close> = schedule.demands()
  local workspace <close> = schedule.workspace()
  local programs, rows, pending, refused, refusal = {}, {}, {}, 0, nil
  local c_plan, c_dtype = plan_module.to_c(base, cluster.gpus_per_node, nil), base.dtype
  local memory_limit = cluster.device.memory_bytes

  -- Programs change in the outer loops only: the last one is nearly always the one wanted.
  local last, last_program = {}, nil
  local function program_of(p)
    if last_program and last.tp == p.tp and last.micro_batch == p.micro_batch and last.seq == p.seq
      and last.cp == p.cp and last.ep == p.ep and last.etp == p.etp and last.one == (p.pp == 1)
      and not swept_rarely then
      return last_program
    end
    local key = lower.key(p)
    last_program = programs[key]
    if not last_program then
      last_program = lower.program(model, p, times)
      programs[key] = last_program
    end
    last.tp, last.micro_batch, last.seq, last.cp, last.ep, last.etp = p.tp, p.micro_batch, p.seq, p.cp, p.ep, p.etp
    last.one = p.pp == 1
    return last_program
  end

  local function evaluate(p, row)
    local lowered = program_of(p)
    local orders, label = schedules.orders(p) -- of a schedule from a file
    if swept_rarely or p.dtype ~= c_dtype or orders or c_plan.orders then
      c_plan, c_dtype = plan_module.to_c(p, cluster.gpus_per_node, orders), p.dtype
    end
    update_c_plan(c_plan, p)
    if orders then c_plan.schedule = "custom" end
    local program = lowered.program
    local step, memory, bubble = schedules.call(label, program.totals, program, c_plan, demands, workspace)
    if not step then return false end
    row.step_seconds, row.memory_bytes, row.bubble_percent = step, memory, 100 * bubble
    row.devices = p.pp * p.tp * p.cp * p.dp
    row.tokens_per_second = p.dp * p.micro_batch * p.micro_batches * p.seq / step
    row.tokens_per_second_per_device = row.tokens_per_second / row.devices
    row.fits = memory <= memory_limit
    return true
  end

  -- What a plan alone is at fault for refuses it; the others go on.
  local function refuse(raised)
    local kind = error_module.from(raised).kind
    if kind ~= "plan" and kind ~= "model" and kind ~= "argument" and kind ~= "limit" then error(raised, 0) end
    refused, refusal = refused + 1, refusal or tostring(raised)
  end

  local p = setmetatable({}, { __index = base })
  combinations(names, values, p, 1, function()
    if from_global then p.micro_batches = nil end
    if given.devices and p.pp * p.tp * p.cp * p.dp ~= given.devices then return end
    local broken = plan_rules.broken(p, model, cluster)
    if #broken > 0 then
      refused, refusal = refused + 1, refusal or tostring(broken[1])
      return
    end
    if from_global then p.micro_batches = p.global_batch // (p.dp * p.micro_batch) end
    -- Every field from the start: a table that grows is copied at each doubling.
    local row = { step_seconds = 0.0, memory_bytes = 0.0, bubble_percent = 0.0, devices = 0, tokens_per_second = 0.0,
      tokens_per_second_per_device = 0.0, fits = false, micro_batches = 0, rank = 0.0, index = 0 }
    for i = 1, #names do row[names[i]] = p[names[i]] end
    row.micro_batches = p.micro_batches
    local ok, done = pcall(evaluate, p, row)
    if not ok then return refuse(done) end
    rows[#rows + 1] = row
    if not done then pending[#pending + 1] = row end
  end)
  if #pending > 0 then
    times:answer(demands, base.dtype, model.hyper.hidden)
    for _, row in ipairs(pending) do
      for i = 1, #names do p[names[i]] = row[names[i]] end
      p.micro_batches = row.micro_batches
      local ok, done = pcall(evaluate, p, row)
      if not ok then
        refuse(done)
        row.refused = true
      elseif not done then
        error_module.raise("internal", "sweep: demands are still untimed after they were answered")
      end
    end
    local kept = {}
    for _, row in ipairs(rows) do
      if not row.refused then kept[#kept + 1] = row end
    end
    rows = kept
  end

  local up = objective:match("^tokens") ~= nil
  for i, row in ipairs(rows) do
    row.index = i
    row.rank = up and -row[objective] or row[objective]
  end
  table.sort(rows, function(a, b)
    if a.fits ~= b.fits then return a.fits end
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a.index < b.index
  end)
  for _, row in ipairs(rows) do row.index, row.rank = nil, nil end
  for _, lowered in pairs(programs) do lowered.program:close() end
  return setmetatable({ cluster = cluster.name, model = model.name, fields = names, objective = objective,
    evaluated = #rows, refused = refused, refusal = refusal, rows = rows, base = base }, Sweep)
end

function Sweep.__tostring(self) return require("ett.report").sweep(self, 20) end
function Sweep.__json(self)
  return { cluster = self.cluster, model = self.model, objective = self.objective, evaluated = self.evaluated,
    refused = self.refused, rows = self.rows, plan = self.base }
end

return setmetatable(sweep, { __call = function(_, given) return sweep.new(given) end })

--- `ett validate` on CPUs: the CPU back end, and ranks over MPI (the interface is in ett.validate).
--
-- All ranks take every measurement together, since they share caches and memory. Operators, collectives and training
-- steps take turns, because the speed of a virtual machine changes within minutes: products varied by 3 to 25 %,
-- messages by a factor of two.
--
-- The measured time of a case is the mean of the middle half of its steps. It excludes other programs
-- (ett.validate.watch).
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local folders = require "ett.base.folder"
local json = require "ett.json"
local quote = require("ett.base.shell").quote
local operator = require "ett.operator"
local optimizer = require "ett.operator.optimizer"
local mpirun = require "ett.sampling.mpirun"
local take_turns = require("ett.sampling.turns").take
local sample = require "ett.sample"
local caches = require "ett.validate.caches"
local campaigns = require "ett.validate.campaign"
local model = require "ett.validate.model"
local view_module = require "ett.validate.view"
local watch_module = require "ett.validate.watch"
local wires = require "ett.validate.wires"

local must, thread_seconds = error_module.must, sample.thread_seconds
local back_end = find.load("samplers", "cpu")
local validate_cpu = {}

-- The step's kernels: the back end of ett.validate.model.

local Kernels = {}
Kernels.__index = Kernels

--- Operands of each compiled kind of samplers/cpu, in its order.
local orders = {
  embedding = { forward = { "ids", "table", "out" }, backward = { "ids", "dy", "dtable" } },
  layer_norm = { forward = { "x", "gain", "bias", "y", "mean", "inverse" },
    backward = { "x", "gain", "dy", "mean", "inverse", "dx", "dgain", "dbias" } },
  linear = { forward = { "x", "w", "y" }, backward = { "x", "w", "dy", "dx", "dw" } },
  rope = { forward = { "x", "table" }, backward = { "x", "table" } },
  attention = { forward = { "qkv", "out", "kept" }, backward = { "qkv", "out", "dout", "dqkv", "kept" } },
  add = { forward = { "a", "b", "sum" }, backward = { "a", "b", "sum" } },
  gelu = { forward = { "x", "y" }, backward = { "x", "dy", "dx" } },
  cross_entropy = { forward = { "logits", "target", "loss", "kept" },
    backward = { "logits", "target", "kept", "dlogits" } },
  adam = { update = { "weights", "gradients", "first", "second" } },
}

--- Kernels of a trainer: tensors of the host and the compiled kinds that samplers/cpu measures.
function validate_cpu.kernels()
  return setmetatable({ core = back_end.core(), calls = { forward = {}, backward = {}, update = {} } }, Kernels)
end

function Kernels.tensor(_, count) return sample.tensor(count) end

--- Weights, gradients and moments are flat buffers: the optimizer is one call, the gradient reduction one message.
function Kernels.hold(_, t, list)
  local count = 0
  for _, entry in ipairs(list) do count = count + entry.count end
  local state = { weights = sample.tensor(count), gradients = sample.tensor(count), first = sample.tensor(count),
    second = sample.tensor(count) }
  t.parameter_count, t.weights, t.gradients, t.optimizer_state = count, state.weights, state.gradients, state
  local at = 1
  for _, entry in ipairs(list) do
    entry.w, entry.g = t.weights:view(at, entry.count), t.gradients:view(at, entry.count)
    at = at + entry.count
    if entry.deviation then entry.w:normal(entry.seed, entry.deviation) else entry.w:fill(entry.value) end
  end
end

--- Backward recomputes the probabilities in scratch memory that all layers share.
function Kernels:attention_state(t)
  self.scratch = self.scratch or sample.tensor(2 * t.plan.seq * t.plan.seq)
  return self.scratch
end

--- Log-sum-exp of each token.
function Kernels.entropy_state(_, t) return sample.tensor(t.z.tokens) end

--- Cosines of each position and pair, then sines.
function Kernels.rotation(_, t)
  local seq, half = t.plan.seq, t.z.head_dim // 2
  local table = sample.tensor(2 * seq * (half + 1))
  for position = 0, seq - 1 do
    for i = 0, half - 1 do
      local angle = model.angle(position, i, t.z.head_dim)
      table:set(position * half + i + 1, math.cos(angle))
      table:set((seq + position) * half + i + 1, math.sin(angle))
    end
  end
  return table
end

function Kernels.inputs(_, t, a)
  a.ids, a.targets = sample.tensor(t.z.tokens), sample.tensor(t.z.tokens)
  a.loss = t.last and sample.tensor(t.z.tokens) or nil
end

function Kernels.feed(_, t, a, micro_batch)
  local ids, targets = t:tokens(micro_batch)
  if t.first then a.ids:integers(ids) end
  if t.last then a.targets:integers(targets) end
end

function Kernels.end_group() end -- the products accumulate into the gradients

function Kernels.add_loss(_, t, a) t.loss = t.loss + a.loss:sum() / t.z.tokens end

--- The call that samplers/cpu makes for an operator, with the order of its operands.
local function call_of(t, name, shape, pass)
  local call = back_end.calls(operator.get(name), shape, pass)[1]
  if call.kind == "embedding" then call.vocab = call.vocab + t.foreign end
  call.order = orders[call.kind][pass]
  return call
end

local function scalars(t, name, pass)
  if name == "optimizer" then
    return { optimizer.rate, optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.decay, t.step_number }
  end
  return name == "cross_entropy" and pass == "backward" and { t:token_share() } or nil
end

--- Runs one operator and records its processor time.
function Kernels:run(t, name, shape, pass, given)
  local call = self.calls[pass][name]
  if not call then
    call = call_of(t, name, shape, pass)
    self.calls[pass][name] = call
  end
  local operands, order = {}, call.order
  for i = 1, #order do operands[i] = given[order[i]] end
  local start = thread_seconds()
  self.core.run(call.kind, pass, call, operands, scalars(t, name, pass))
  local seconds = thread_seconds() - start
  local record = t:record(name, pass, 0)
  record.shape = shape
  record.seconds, record.calls = record.seconds + seconds, record.calls + 1
end

function Kernels.step(_, t)
  t.loss = 0
  t:walk()
  return t.loss / t.plan.micro_batches
end

--- Processor seconds of the host beside the kernels, measured between products that evict the host's data from the
--- caches, as in a step.
---@param rounds integer the result is the median of this many rounds
---@return table { operator_seconds = preparing and recording an operator, call_seconds = the call, recorded with the
--- kernel, token_seconds = per token { embedding = making the token, cross_entropy = combining the vocabulary parts } }
function validate_cpu.host_seconds(rounds)
  local tensor = sample.tensor
  local z = { tokens = 128, hidden = 256, width = 256, ffn = 1024, heads = 4, head_dim = 64, vocab = 512 }
  local plan = { tp = 2, micro_batch = 2, seq = 64 }
  local t = setmetatable({ z = z, stage = 0, tp_rank = 0, dp_rank = 0, seed = 1, step_number = 0, first = true,
    last = true, foreign = 1, hyper = { vocab = 1024 }, plan = plan, shapes = model.shapes(z, plan),
    backend = validate_cpu.kernels() }, model.Trainer)
  local x, y, sum = tensor(z.tokens * z.hidden), tensor(z.tokens * 3 * z.hidden), tensor(z.tokens * z.hidden)
  t.s = { top = tensor(z.tokens), target = tensor(z.tokens), sum = tensor(z.tokens) }
  local a = { entropy = t.backend:entropy_state(t) }
  t.backend:inputs(t, a)
  local weights = {}
  local drawn = tensor(3 * z.hidden * z.hidden):normal(1, 0.02)
  for i = 1, 24 do weights[i] = tensor(#drawn):copy(drawn) end
  local calls, inner, tokens, joins = {}, {}, {}, {}
  local nothing = { rows = 1, cols = 1 } -- a kernel of one number costs the call alone
  for i = 1, rounds do
    t:reset()
    local start = thread_seconds()
    for k = 0, 3 do
      t:op("linear_qkv", "forward", { x = x, w = weights[(4 * i + k) % #weights + 1], y = y })
      t:op("residual_add", "forward", { a = x, b = sum, sum = sum })
    end
    local stop, recorded = thread_seconds(), 0.0
    for _, record in ipairs(t.order) do recorded = recorded + record.seconds end
    calls[i] = (stop - start - recorded) / 8
    inner[i] = 0.0
    for _, before in ipairs { "linear_qkv", "residual_add" } do -- half of the calls follow each
      t:op(before, "forward", before == "linear_qkv" and { x = x, w = weights[i % #weights + 1], y = y }
        or { a = x, b = sum, sum = sum })
      local called = thread_seconds()
      t.backend.core.run("add", "forward", nothing, { x, sum, sum })
      inner[i] = inner[i] + 0.5 * (thread_seconds() - called)
    end
    local fed = thread_seconds()
    t.backend:feed(t, a, 1)
    local made = thread_seconds()
    t:join_vocabulary(a) -- sends nothing: there is no group
    tokens[i], joins[i] = (made - fed) / z.tokens, (thread_seconds() - made) / z.tokens
  end
  return { operator_seconds = sample.stats(calls).median, call_seconds = sample.stats(inner).median,
    token_seconds = { embedding = sample.stats(tokens).median, cross_entropy = sample.stats(joins).median } }
end

-- Training.

local Training = {}
Training.__index = Training

--- Turns over which the steps of a case are spread.
validate_cpu.turns = 6

-- Untimed steps at the start of a turn of a case, and the fewest timed ones after them.
local warm, least_count = 1, 2

--- Recorded lines as means over the chosen steps and over ranks: for an operator the processor time of one rank, for a
--- collective the time that it added to the step.
local function lines(chosen, job, pp, share)
  local list = {}
  for i, first in ipairs(chosen[1].order) do
    local record = { name = first.name, pass = first.pass, shape = first.shape, bytes = first.bytes,
      ranks = first.ranks, calls = first.calls, seconds = 0.0 }
    for _, step in ipairs(chosen) do
      local r = step.order[i]
      -- Ranks that share a processor wait while others work: only processor time counts.
      local seconds = r.bytes and share > 1 and share * r.processor_seconds or r.seconds
      record.seconds = record.seconds + seconds / #chosen
    end
    if job and pp == 1 then record.seconds = job.world:reduce(record.seconds, "sum") / job.size end
    list[i] = record
  end
  return list
end

--- Trains a case for `count` timed steps after a warm-up step.
local function visit(one, count, steps, job, watch)
  local trainer, plan = one.trainer, one.case.plan
  for i = 1, warm + count do
    trainer:reset()
    local loss
    local seen = watch:observe(function() loss = trainer:step() end)
    local world = job and job.world
    if world then loss = world:reduce(trainer.last and loss or 0, "sum") / (plan.dp * plan.tp) end
    one.trained = one.trained + 1
    one.first_loss = one.first_loss or loss
    if one.trained <= 3 + steps then one.last_loss = loss end -- of the same step in every run
    if i > warm then
      seen.cost, seen.order = plan.pp > 1 and seen.seconds or seen.busy, trainer.order
      one.seen[#one.seen + 1] = seen
    end
  end
end

--- Begins to train cases in turn, `steps` steps of each. In a pipeline a stage may wait or compute while another
--- program runs. Its cases are trained until `steps` steps were undisturbed or 3 * steps are done.
---@param job table? of ett.dist; without one this process trains alone
---@param watch table of ett.validate.watch
function validate_cpu.train(cases, steps, job, watch)
  local self = setmetatable({ list = {}, steps = steps, job = job, watch = watch, turns = 0,
    count = math.max(math.min(least_count, steps), steps // validate_cpu.turns) }, Training)
  for i, case in ipairs(cases) do
    self.list[i] = { case = case, seen = {}, trained = 0,
      trainer = model.new { hyper = case.hyper, plan = case.plan, job = job, backend = validate_cpu.kernels() } }
  end
  return self
end

--- Trains each unfinished case for some steps. Returns whether more turns are needed.
function Training:turn()
  self.turns = self.turns + 1
  local more = false
  for _, one in ipairs(self.list) do
    local counted = one.case.plan.pp > 1 and watch_module.quiet(one.seen) or #one.seen
    if counted < self.steps and #one.seen + self.count <= 3 * self.steps then
      visit(one, self.count, self.steps, self.job, self.watch)
      more = true
    end
  end
  return more
end

--- Share of the work done, if no step was disturbed.
function Training:progress() return self.turns * self.count / self.steps end

--- Results by case. The step time is the mean of the middle half of all steps; in a pipeline, of the undisturbed steps.
--- With fewer than three of these, the three least disturbed steps are used. These steps also give the records.
---@return table[] { step_seconds, wall_seconds (median of all), steps, undisturbed_steps, foreign_percent (of the steps
--- used), disturbed, first_loss, last_loss, records }
function Training:results()
  local results = {}
  for i, one in ipairs(self.list) do
    local walls = {}
    for k, step in ipairs(one.seen) do walls[k] = step.seconds end
    local chosen = watch_module.choose(one.seen, math.min(3, #one.seen))
    local used = one.case.plan.pp > 1 and chosen or watch_module.choose(one.seen, #one.seen)
    results[i] = { step_seconds = used.cost, wall_seconds = sample.stats(walls).median, steps = #walls,
      undisturbed_steps = chosen.quiet, foreign_percent = 100 * used.foreign,
      disturbed = chosen.quiet < math.min(3, self.steps), first_loss = one.first_loss, last_loss = one.last_loss,
      records = lines(chosen.chosen, self.job, one.case.plan.pp,
        self.job and watch_module.share(self.job.size) or 1) }
  end
  return results
end

-- Ranks.

local quantum = 0.1 -- share of each task that runs in one turn

--- A function that samples the operators of a campaign and yields its progress.
---@param one table file, folder
local function sampling(one, given, share, processor)
  return function()
    campaigns.run(one.file, "sampling operators", "fp32", { out = one.folder, share = share,
      device = not share and processor or nil, check = given.check, on_turn = coroutine.yield })
  end
end

--- The median of each field over several readings of validate_cpu.host_seconds.
local function medians(readings)
  local answer = {}
  for key, value in pairs(readings[1]) do
    local list = {}
    for i, reading in ipairs(readings) do list[i] = reading[key] end
    answer[key] = type(value) == "table" and medians(list) or sample.stats(list).median
  end
  return answer
end

--- The work of one rank: samples operators, caches and collectives and trains, in turn, with all ranks of the job.
---@param given table of run_ranks
---@param share table? of ett.share; nil: this process alone
---@return table answer of run_ranks, on rank 0
local function work(given, share)
  local cpu, job = back_end.core(), share and share.job
  local turns = math.min(validate_cpu.turns, given.steps)
  local processor = back_end.processor_of(job and job.local_rank or 0)
  local pinned <close> = setmetatable({}, { __close = function() cpu.unpin() end }) -- luacheck: ignore pinned
  must(cpu.pin(processor))
  local watch = watch_module.new(job)
  local answer, readings, tasks = { layouts = {} }, {}, {}
  for _, one in ipairs(given.campaigns) do tasks[#tasks + 1] = sampling(one, given, share, processor) end
  local function task(step)
    tasks[#tasks + 1] = function()
      local progress
      repeat
        must(cpu.pin(processor)) -- a campaign that ends unpins the thread
        progress = step()
        if progress then coroutine.yield(progress) end
      until not progress
    end
  end
  local retained = caches.begin(given.near_bytes, given.far_bytes, given.effort, job)
  task(function() -- all ranks at once, as they train
    readings[#readings + 1] = validate_cpu.host_seconds(10)
    retained:turn()
    return #readings < turns and #readings / turns
  end)
  for i, layout in ipairs(given.layouts) do
    local measured = { rows = {} }
    answer.layouts[i] = measured
    if job then
      local between = wires.begin(job, layout.plan, given.effort, watch)
      task(function()
        if between:turn() then return between:progress() end
        measured.rows = between:rows()
      end)
    end
    local trainings = validate_cpu.train(layout.cases, given.steps, job, watch)
    task(function()
      if trainings:turn() then return trainings:progress() end
      measured.results = trainings:results()
    end)
  end
  take_turns(tasks, nil, quantum)
  answer.host, answer.retention = medians(readings), retained:curve()
  return answer
end

--- The ranks' side of run_ranks.
---@param path string of the request
function validate_cpu.work(path)
  local given, why = json.read(path)
  if not given then error(why, 0) end
  local share = require("ett.base.share").join(true)
  if not share then error_module.raise("usage", "validate --worker runs only under mpirun") end
  local ok, raised = xpcall(function()
    local answer = work(given, share)
    if share.rank() == 0 then folders.write(given.answer, json.encode(answer)) end
  end, error_module.from)
  if not ok then
    if raised.kind == "interrupt" then error(raised, 0) end -- the signal ends it; mpirun ends the others
    io.stderr:write(("ett: %s\n"):format(tostring(raised)))
    share.abort(1)
  end
  share.leave()
end

--- Samples and trains with a number of ranks.
---@param given table count (of ranks; 1: this process), campaigns (list of { file, folder }), near_bytes, far_bytes,
--- check, layouts (list of { plan, cases }), steps, effort, folder (for files), what (in words, for errors)
---@return table { host = of validate_cpu.host_seconds, retention = of Retention:curve, layouts = list of { rows = of
--- Sampling:rows, results = of Training:results } }
local function run_ranks(given)
  if given.count == 1 then return work(given) end
  local request = ("%s/ranks_%d.json"):format(given.folder, given.count)
  given.answer = ("%s/measured_%d.json"):format(given.folder, given.count)
  folders.write(request, json.encode(given))
  back_end.core().unpin() -- the ranks inherit the allowed processors
  collectgarbage() -- the ranks need the memory of earlier trainers
  local crowded = watch_module.share(given.count) > 1 -- a waiting rank must then leave its processor to the others
  mpirun.run(given.count, ("validate --worker %s"):format(quote(request)), { what = given.what,
    log = ("%s/ranks_%d.log"):format(given.folder, given.count),
    environment = crowded and "OMPI_MCA_mpi_yield_when_idle=1" or nil })
  return assert(json.read(given.answer))
end

-- The back end.

local Backend = { precision = "fp32" }
Backend.__index = Backend

---@param options table out, layouts (list of { name, ranks, dp, tp, pp, cases }), scale, steps, check (the operators'
--- results, before they are sampled), on_stage
function validate_cpu.open(options)
  local ok, why = back_end.available()
  if not ok then error_module.raise("missing", "%s", why) end
  for _, layout in ipairs(options.layouts) do
    if layout.ranks > 1 then
      ok, why = mpirun.available()
      if not ok then error_module.raise("missing", "layout %s needs several ranks: %s", layout.name, why) end
    end
  end
  return setmetatable({ options = options, measured = {} }, Backend)
end

--- Writes the near and the far campaign of some ranks: { { folder =, file = }, … }.
local function write_campaigns(options, count)
  local list = {}
  for i, kind in ipairs { "near", "far" } do
    local folder = folders.make(("%s/ranks_%d_%s"):format(options.out, count, kind))
    list[i] = { folder = folder, file = campaigns.write(folder .. "/operators.lua", "cpu", options.scale,
      view_module[kind .. "_bytes"]) }
  end
  return list
end

--- Samples and trains with a number of ranks, for all layouts of that many: they run the same operators.
---@return table { near, far = profiles, host and retention = of run_ranks, [layout's name] = { rows =, results = } }
local function measure(options, count)
  local given = { count = count, campaigns = write_campaigns(options, count), near_bytes = view_module.near_bytes,
    far_bytes = view_module.far_bytes, check = options.check, layouts = {}, steps = options.steps,
    effort = options.scale, folder = options.out }
  local names = {}
  for _, layout in ipairs(options.layouts) do
    if layout.ranks == count then
      names[#names + 1] = layout.name
      given.layouts[#names] = { plan = { dp = layout.dp, tp = layout.tp, pp = layout.pp }, cases = layout.cases }
    end
  end
  given.what = ("layout%s %s"):format(#names > 1 and "s" or "", table.concat(names, ", "))
  local cases = #given.layouts[1].cases
  options.on_stage(("%s: %d rank%s, sampling and training %d configuration%s in turn"):format(given.what, count,
    count > 1 and "s" or "", cases, cases > 1 and "s" or ""))
  local answer = run_ranks(given)
  local measured = { host = answer.host, retention = answer.retention }
  for i, name in ipairs(names) do
    measured[name] = answer.layouts[i]
    if count > 1 then
      wires.write(("%s/wires_%s.csv"):format(options.out, name), answer.layouts[i].rows, given.layouts[i].plan,
        answer.host, count)
    end
  end
  for i, kind in ipairs { "near", "far" } do
    measured[kind] = require("ett.profile").from_samples({ given.campaigns[i].folder }, { cache = false })
  end
  return measured
end

function Backend:view(layout)
  local measured = self.measured[layout.ranks] or measure(self.options, layout.ranks)
  self.measured[layout.ranks] = measured
  local rows = measured[layout.name].rows
  local view = view_module.new(measured.near, measured.far, { host = measured.host, rows = rows,
    retention = measured.retention, tp = layout.tp, share = watch_module.share(layout.ranks) })
  return view, { crowded = view.share > 1, ranks_per_processor = view.share, host = measured.host,
    retention = measured.retention, collectives = view:held_out(), collective_samples = #rows,
    disturbed_collective_samples = wires.disturbed(rows) }
end

function Backend:trainer(layout)
  local results = self.measured[layout.ranks][layout.name].results
  return function(i) return results[i] end
end

function Backend.close() end

return validate_cpu

--- `ett validate --backend torch`: steps of a plain PyTorch GPT (samplers/torch/train.py), predicted from traces of
--- other sizes.
--
-- The program trains the sizes of the report and models of random sizes in turns. Steps of random sizes are timed, and
-- recorded by PyTorch's profiler. ett infers plan and model from every trace, assigns the step time to the model's
-- operators (ett.loop.match) and makes a sample of each operator: the mean of the middle half over the recorded steps,
-- minus the overhead of the profiler. The overhead is recorded minus unrecorded step time, divided equally among the
-- recorded operators. Predictions of the report's sizes use these samples only.
local added = require "ett.validate.added"
local against = require "ett.loop.against"
local error_module = require "ett.base.error"
local expected = require "ett.loop.expected"
local folders = require "ett.base.folder"
local host = require "ett.host"
local json = require "ett.json"
local match = require "ett.loop.match"
local operators = require "ett.trace.operators"
local quote = require("ett.base.shell").quote
local sample_table = require "ett.samples.table"
local subject = require "ett.loop.subject"
local watch = require "ett.validate.watch"

local validate_torch = {}

local Backend = { precision = "fp32", named = "PyTorch on the host" }
Backend.__index = Backend

--- Properties of the plain GPT that a trace does not show.
local hyper = { position = "learned", bias = true, tied_embeddings = false, vocab_multiple = 1, attention = "unfused",
  head_bias = false }

--- Sampled sizes: random, within the range of the report's sizes.
local function sampled_sizes(sizes, count)
  math.randomseed(20261122)
  local list = {}
  local function between(index, multiple)
    local least, most = math.huge, 0
    for _, c in ipairs(sizes) do least, most = math.min(least, c[index]), math.max(most, c[index]) end
    local x = math.exp(math.log(least * 0.8) + math.random() * (math.log(most * 1.15) - math.log(least * 0.8)))
    return math.max(multiple, math.floor(x / multiple + 0.5) * multiple)
  end
  for i = 1, count do
    local heads = ({ 2, 4, 4, 8 })[math.random(1, 4)]
    list[i] = { 2, between(2, 8 * heads), heads, between(4, 64), between(5, 1), 1, between(7, 8) }
  end
  return list
end
validate_torch.sampled_sizes = sampled_sizes

local function case_of(c, trace)
  return { layers = c[1], hidden = c[2], heads = c[3], vocab = c[4], batch = c[5], seq = c[7], trace = trace }
end

--- Runs the program on some cases in `world` processes; returns the results of each case.
function Backend:run(cases, world)
  local job, out = ("%s/job%d.json"):format(self.out, world), ("%s/result%d.json"):format(self.out, world)
  folders.write(job, json.encode { threads = 1, out = out, steps = self.steps, quiet = watch.foreign,
    cases = json.array(cases) })
  local log = ("%s/log%d"):format(self.out, world)
  -- torch.set_num_threads does not reach the threads of OpenBLAS
  local ok = os.execute(("OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo %s -B %s %s %d >%s 2>&1")
    :format(quote(self.python), quote(host.root .. "/samplers/torch/train.py"), quote(job), world, quote(log)))
  local text = ok and require("ett.io").read(out)
  if not text then
    local said = require("ett.io").read(log) or ""
    error_module.raise("lost", "validate: the PyTorch program ended: %s", said:match("([^\n]+)%s*$") or "no message")
  end
  return json.decode(text).results
end

--- The undisturbed steps of one kind, chosen by ett.validate.watch; at least the less disturbed half.
local function choose(steps)
  local list = {}
  for i, step in ipairs(steps) do list[i] = { cost = step[1], foreign = step[2], index = i } end
  return watch.choose(list, (#list + 1) // 2)
end

--- The runs in every undisturbed recorded step, without the overhead of the profiler.
local function steps_of(view, result)
  local process, spans, events = view:processes()[1], {}, 0
  local steps = view:steps()
  for i, chosen in ipairs(choose(result.recorded).chosen) do
    spans[i] = steps[chosen.index].spans[process.index]
    local _, count = operators.of_stretch(view, process, spans[i][1], spans[i][2], function() return 0 end)
    events = math.max(events, count)
  end
  if #spans == 0 or events == 0 then error_module.raise("missing", "the trace has no recorded step") end
  local surplus = math.max(0.0, choose(result.recorded).cost - choose(result.alone).cost) * view.trace.ticks_per_second
  local lists = {}
  for i, span in ipairs(spans) do
    lists[i] = { runs = operators.of_stretch(view, process, span[1], span[2],
      function(n) return n * surplus / events end) }
  end
  return lists
end

--- Adds one line of a step: the seconds of each run. If a line has several operators, the first gets the time and the
--- others get zero.
local function add_line(rows, line, seconds, what, place)
  local entry = line.entries and line.entries[1]
  local name = line.update and "optimizer" or entry and entry.name
  if not name then return end
  local op = entry and entry.operator or require("ett.operator").get "optimizer"
  local shape = entry and entry.shape or { params = math.floor(what.parameters), layers = what.model.hyper.layers,
    hidden = what.model.hyper.hidden }
  rows.operators[name] = rows.operators[name] or { op = op, list = {}, by_key = {} }
  local list, key = rows.operators[name], place .. json.encode(shape)
  local row = list.by_key[key]
  if not row then
    row = { shape = shape, place = place, times = {}, seconds = {} }
    list.by_key[key], list.list[#list.list + 1] = row, row
  end
  local pass = line.update and "update" or line.pass
  local times = row.times[pass] or {}
  row.times[pass] = times
  table.move(seconds, 1, #seconds, #times + 1, times)
  for i = 2, #(line.entries or {}) do rows.free[line.entries[i].name] = true end
end

--- Sets the seconds of every row of a case: the mean of the middle half over its runs, times a factor that makes the
--- sum of the rows equal to the unrecorded step time. The factor differs from 1 if other programs delayed operators.
local function set_seconds(rows, place, steps, seconds)
  local mine, sum = {}, 0.0
  for _, each in pairs(rows.operators) do
    for _, row in ipairs(each.list) do if row.place == place then mine[#mine + 1] = row end end
  end
  for _, row in ipairs(mine) do
    for pass, times in pairs(row.times) do
      row.seconds[pass] = watch.middle(times)
      sum = sum + row.seconds[pass] * #times / steps
    end
  end
  for _, row in ipairs(mine) do
    for pass in pairs(row.seconds) do row.seconds[pass] = row.seconds[pass] * seconds / sum end
  end
end

--- Adds the samples of a recorded case: of every operator, shape and pass.
local function add_samples(rows, path, result)
  local view <close> = assert(require("ett.trace.view").open(path, { args = against.args }))
  local what = subject.of(view, { model = "gpt", cluster = rows.cluster, hyper = hyper })
  what.parameters = require("ett.model.architecture").parameters(what.model)
  local lists = steps_of(view, result)
  local present = match.present(lists)
  local sequence = expected.sequence(what.model, what.plan, present)
  for _, list in ipairs(lists) do
    for _, line in ipairs((match.lines({ list }, sequence, present, true))) do
      local seconds = {}
      for i, ticks in ipairs(line.list) do seconds[i] = view:s(ticks) end
      add_line(rows, line, seconds, what, path)
    end
  end
  set_seconds(rows, path, #lists, choose(result.alone).cost)
  rows.read[#rows.read + 1] = what
end

--- Writes a table with the rows of an operator that have every pass.
local function write_table(folder, name, entry)
  local rows = {}
  for _, row in ipairs(entry.list) do
    local microseconds, whole = {}, true
    for _, pass in ipairs(entry.op.passes) do
      whole = whole and row.seconds[pass] ~= nil
      microseconds[pass] = 1e6 * math.max(1e-7, row.seconds[pass] or 0.0)
    end
    if whole then rows[#rows + 1] = { shape = row.shape, microseconds = microseconds } end
  end
  if #rows == 0 then return end
  folders.write(folder .. "/" .. sample_table.name("cpu", name, "fp32"), sample_table.of_shapes({
    { "ett", host.version }, { "backend", "cpu" }, { "operator", name },
    { "time", "host time in recorded steps of PyTorch" } }, entry.op, rows, entry.op.passes))
end

-- The view that predicts ---------------------------------------------------------------

local View = { share = 1, launch_seconds = 0.0, plan = { dtype = "fp32", fused_accumulation = true }, tp = 1,
  host = { token_seconds = { cross_entropy = 0.0 } } }
View.__index = View

function View:expect(case) self.hyper = require "ett.base.merged"(hyper, { max_positions = case.plan.seq }) end

function View:alone(name, shape, dtype, pass)
  if self.free[name] then return { seconds = 0.0, low_seconds = 0.0, high_seconds = 0.0, provenance = "measured" } end
  return self.profile:operator(name, shape, dtype, pass)
end

View.operator = View.alone

--- The time that the gradient all-reduce adds to a step (ett.validate.added).
function View:collective(_, bytes)
  if self.silent or not self.law then
    return { seconds = 0.0, low_seconds = 0.0, high_seconds = 0.0, provenance = "assumed" }
  end
  local seconds = added.seconds(self.law, bytes, self.stretch.step)
  return { seconds = seconds, low_seconds = 0.8 * seconds, high_seconds = 1.2 * seconds, provenance = "interpolated" }
end

-- The back end -------------------------------------------------------------------------

--- true, or nil and the missing part.
function validate_torch.available() return require("ett.base.find").load("samplers", "torch").available() end

--- Trains and records the sampled sizes, trains the report's sizes, in turns; reads the traces.
function Backend:measure(layout)
  self.on_stage(("%s: %d process%s, sampling %d sizes and training %d in turn"):format(layout.name, layout.ranks,
    layout.ranks > 1 and "es" or "", #self.sampled, #layout.cases))
  local folder, cases = folders.make(("%s/samples%d"):format(self.out, layout.ranks)), {}
  for i, c in ipairs(self.sampled) do cases[i] = case_of(c, ("%s/trace_%d"):format(folder, i)) end
  for _, case in ipairs(layout.cases) do
    local h, p = case.hyper, case.plan
    cases[#cases + 1] = case_of { h.layers, h.hidden, h.heads, h.vocab, p.micro_batch, 1, p.seq }
  end
  local results = self:run(cases, layout.ranks)
  local rows = { operators = {}, free = {}, read = {}, cluster = self.cluster }
  for i = 1, #self.sampled do
    error_module.wrap(("sampled size %d"):format(i), add_samples, rows, cases[i].trace, results[i])
  end
  for name, entry in pairs(rows.operators) do
    rows.free[name] = nil
    write_table(folder, name, entry)
  end
  self.known = { results = results, free = rows.free, read = rows.read,
    profile = require("ett.profile").from_samples({ folder }, { cache = false }) }
  return self.known
end

--- Number of inferred plan and model fields that are right, and number of all.
function Backend:fields_read()
  local right, count = 0, 0
  for i, what in ipairs(self.known.read) do
    local c, h, p = self.sampled[i], what.model.hyper, what.plan
    for _, pair in ipairs { { h.layers, c[1] }, { h.hidden, c[2] }, { h.heads, c[3] }, { h.vocab, c[4] },
      { p.micro_batch, c[5] }, { p.seq, c[7] }, { p.tp, 1 }, { p.dp, 1 }, { p.micro_batches, 1 } } do
      count = count + 1
      if pair[1] == pair[2] then right = right + 1 end
    end
  end
  return right, count
end

--- The law of the time that gradient all-reduces add to steps of the sampled sizes.
local function law_of(known, count)
  local sizes = {}
  for i = 1, count do
    local result = known.results[i]
    sizes[i] = { step = choose(result.steps).cost, alone = choose(result.alone).cost,
      bytes = 4.0 * require("ett.model.architecture").parameters(known.read[i].model) }
  end
  return added.fit(sizes)
end

function Backend:view(layout)
  local known = self:measure(layout)
  local law = layout.dp > 1 and law_of(known, #self.sampled) or nil
  local right, count = self:fields_read()
  return setmetatable({ profile = known.profile, free = known.free, wires = {}, law = law }, View),
    { collectives = {}, host = View.host, fields_right = right, fields_read = count,
      collective_samples = layout.dp > 1 and #self.sampled or 0, disturbed_collective_samples = 0 }
end

function Backend:trainer()
  local results, before = self.known.results, #self.sampled
  return function(i)
    local result = results[before + i]
    local chosen = choose(result.steps)
    return { step_seconds = chosen.cost, records = {}, steps = #result.steps, undisturbed_steps = chosen.quiet,
      foreign_percent = 100 * chosen.foreign, disturbed = chosen.quiet < math.min(3, self.steps),
      first_loss = result.first_loss, last_loss = result.last_loss }
  end
end

function Backend.close() end

---@param options table { out, sizes, scale, steps, on_stage, cluster (of one rank) }
function validate_torch.open(options)
  local python, why = require("ett.base.find").load("samplers", "torch").interpreter()
  if not python then error_module.raise("missing", "validate: %s", why) end
  local count = require("ett.validate.campaign").scaled(options.scale)(24)
  return setmetatable({ out = options.out, cluster = options.cluster, python = python, steps = options.steps,
    sampled = sampled_sizes(options.sizes, count), on_stage = options.on_stage or function() end }, Backend)
end

return validate_torch

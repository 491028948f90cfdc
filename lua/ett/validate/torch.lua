--- `ett validate --backend torch`: steps of a plain PyTorch GPT (samplers/torch/train.py), predicted from traces of
--- other sizes.
--
-- The program trains models of random sizes. Each is timed by the clock, then recorded by PyTorch's profiler. ett reads
-- the plan and the model off every trace, books the step on the model's operators (ett.loop.match) and makes a sample
-- of each: its median over the recorded steps, less what the profiler costs. That cost is what recorded steps take
-- longer than those by the clock, an equal share for each recorded operator. Then the sizes of the report are
-- predicted from the samples, and trained.
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
local schema = require "ett.base.schema"
local stats = require "ett.trace.stats"
local subject = require "ett.loop.subject"

local validate_torch = {}

local Backend = { precision = "fp32", named = "PyTorch on the host" }
Backend.__index = Backend

--- What the plain GPT has, and a trace of it does not show.
local hyper = { position = "learned", bias = true, tied_embeddings = false, vocab_multiple = 1, attention = "unfused",
  head_bias = false }

--- Sampled sizes: random, between the least and the greatest of the report's.
local function sampled_sizes(sizes, count)
  math.randomseed(20261122)
  local list = {}
  local function between(index, multiple, to)
    local least, most = math.huge, 0
    for _, c in ipairs(sizes) do least, most = math.min(least, c[index]), math.max(most, c[index]) end
    local x = math.exp(math.log(least * 0.8) + math.random() * (math.log(most * (to or 1.15)) - math.log(least * 0.8)))
    return math.max(multiple, math.floor(x / multiple + 0.5) * multiple)
  end
  for i = 1, count do
    local heads = ({ 2, 4, 4, 8 })[math.random(1, 4)]
    list[i] = { 2, between(2, 8 * heads), heads, between(4, 64), between(5, 1), 1, between(7, 8) }
  end
  return list
end
validate_torch.sampled_sizes = sampled_sizes

local function case_of(c, steps, trace)
  return { layers = c[1], hidden = c[2], heads = c[3], vocab = c[4], batch = c[5], seq = c[7], steps = steps,
    trace = trace }
end

--- Runs the program on some cases in so many processes; the results of each case.
function Backend:run(cases, world)
  self.jobs = self.jobs + 1
  local job = ("%s/job%d.json"):format(self.out, self.jobs)
  local out = ("%s/result%d.json"):format(self.out, self.jobs)
  folders.write(job, json.encode { threads = 1, out = out, cases = json.array(cases) })
  local lines, log = {}, ("%s/log%d"):format(self.out, self.jobs)
  for rank = world - 1, 0, -1 do
    lines[#lines + 1] = ("GLOO_SOCKET_IFNAME=lo %s -B %s %s %d %d >%s.%d 2>&1%s"):format(quote(self.python),
      quote(host.root .. "/samplers/torch/train.py"), quote(job), rank, world, quote(log), rank, rank > 0 and " &"
        or "")
  end
  lines[#lines + 1] = "code=$?; wait; exit $code"
  local ok = os.execute(table.concat(lines, "\n"))
  local text = ok and require("ett.io").read(out)
  if not text then
    local said = require("ett.io").read(log .. ".0") or ""
    error_module.raise("lost", "validate: the PyTorch program ended: %s", said:match("([^\n]+)%s*$") or "no message")
  end
  return json.decode(text).results
end

--- Seconds of a step: the mean of the middle half.
local function middle(seconds)
  local sorted = stats.sorted(seconds)
  local cut = #sorted // 4
  return stats.mean(table.move(sorted, cut + 1, #sorted - cut, 1, {}))
end

--- The runs of every recorded step, without what the profiler costs.
local function steps_of(view, result)
  local process, spans, lengths, events = view:processes()[1], {}, {}, 0
  for i, step in ipairs(view:steps()) do
    spans[i] = step.spans[process.index]
    local _, count = operators.of_stretch(view, process, spans[i][1], spans[i][2], function() return 0 end)
    lengths[i], events = spans[i][2] - spans[i][1], math.max(events, count)
  end
  if #spans == 0 or events == 0 then error_module.raise("missing", "the trace has no recorded step") end
  local surplus = math.max(0.0, stats.median(lengths) - middle(result.seconds) * view.trace.ticks_per_second)
  local lists = {}
  for i, span in ipairs(spans) do
    lists[i] = { runs = operators.of_stretch(view, process, span[1], span[2],
      function(n) return n * surplus / events end) }
  end
  return lists
end

--- Books a line of one step: of several operators the first carries the time, the others then take none.
local function book(rows, line, seconds, what, place)
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
    row = { shape = shape, times = { forward = {}, backward = {}, update = {} } }
    list.by_key[key], list.list[#list.list + 1] = row, row
  end
  table.insert(row.times[line.update and "update" or line.pass], seconds)
  for i = 2, #(line.entries or {}) do rows.free[line.entries[i].name] = true end
end

--- Adds the samples of a recorded case: of every operator, shape and pass the median over the steps.
local function add_samples(rows, path, result)
  local view <close> = assert(require("ett.trace.view").open(path, { args = against.args }))
  local what = subject.of(view, { model = "gpt", cluster = rows.cluster, hyper = hyper })
  what.parameters = require("ett.model.architecture").parameters(what.model)
  local lists = steps_of(view, result)
  local present = match.present(lists)
  local sequence = expected.sequence(what.model, what.plan, present)
  for _, list in ipairs(lists) do
    for _, line in ipairs((match.lines({ list }, sequence, present, true))) do
      book(rows, line, view:s(line.ticks) / math.max(1, line.count), what, path)
    end
  end
  rows.read[#rows.read + 1] = what
end

local columns = { forward = "F_dur(us)", backward = "B_dur(us)", update = "dur(us)" }

--- Writes the rows of an operator as a table.
local function write_table(folder, name, entry)
  local passes = entry.op.passes
  local fields, used = schema.keys(entry.op.schema), {}
  for _, field in ipairs(fields) do
    local any = false
    for _, row in ipairs(entry.list) do any = any or row.shape[field] ~= nil end
    if any then used[#used + 1] = field end
  end
  local lines = {}
  for _, row in ipairs(entry.list) do
    local cells, whole = {}, true
    for i, field in ipairs(used) do cells[i] = ("%d"):format(row.shape[field] or 1) end
    for _, pass in ipairs(passes) do
      local times = row.times[pass]
      whole = whole and #times > 0
      cells[#cells + 1] = ("%.7g"):format(1e6 * math.max(1e-7, #times > 0 and stats.median(times) or 0))
    end
    if whole then lines[#lines + 1] = table.concat(cells, ",") end
  end
  if #lines == 0 then return end
  for _, pass in ipairs(passes) do used[#used + 1] = columns[pass] end
  folders.write(("%s/cpu_%s_fp32.csv"):format(folder, name), sample_table.header({ { "ett", host.version },
    { "backend", "cpu" }, { "operator", name }, { "time", "host time in recorded steps of PyTorch" } }, used)
    .. table.concat(lines, "\n") .. "\n")
end

-- The view that predicts ---------------------------------------------------------------

local View = { share = 1, launch_seconds = 0.0, plan = { dtype = "fp32", accumulate_gradients = false }, tp = 1,
  host = { token_seconds = { cross_entropy = 0.0 } } }
View.__index = View

function View:expect(case)
  self.hyper = {}
  for name, value in pairs(hyper) do self.hyper[name] = value end
  self.hyper.max_positions = case.plan.seq
end

function View:alone(name, shape, dtype, pass)
  if self.free[name] then return { seconds = 0.0, low_seconds = 0.0, high_seconds = 0.0, provenance = "measured" } end
  return self.profile:operator(name, shape, dtype, pass)
end

View.operator = View.alone

--- What the sum of gradients adds to a step, by its bytes: a straight line through what recorded sizes lost.
function View:collective(_, bytes)
  if self.silent or not self.line then
    return { seconds = 0.0, low_seconds = 0.0, high_seconds = 0.0, provenance = "assumed" }
  end
  local seconds = math.max(0.0, self.line[1] + self.line[2] * bytes)
  return { seconds = seconds, low_seconds = 0.8 * seconds, high_seconds = 1.2 * seconds, provenance = "interpolated" }
end

--- Least squares of relative errors: y = a + b x.
local function line_through(xs, ys)
  local s, sx, sy, sxx, sxy = 0.0, 0.0, 0.0, 0.0, 0.0
  for i, x in ipairs(xs) do
    local w = 1 / math.max(1e-6, ys[i]) ^ 2
    s, sx, sy, sxx, sxy = s + w, sx + w * x, sy + w * ys[i], sxx + w * x * x, sxy + w * x * ys[i]
  end
  local d = s * sxx - sx * sx
  if d == 0 then return { sy / s, 0.0 } end
  return { (sxx * sy - sx * sxy) / d, (s * sxy - sx * sy) / d }
end

-- The back end -------------------------------------------------------------------------

--- true, or nil and what is missing.
function validate_torch.available() return require("ett.base.find").load("samplers", "torch").available() end

--- Trains and records the sampled sizes in one process or two, and reads the traces.
function Backend:sample(world)
  self.on_stage(("sampling: %d sizes in %d process%s"):format(#self.sampled, world, world > 1 and "es" or ""))
  local cases, folder = {}, ("%s/samples%d"):format(self.out, world)
  folders.make(folder)
  for i, c in ipairs(self.sampled) do
    cases[i] = case_of(c, self.steps, world == 1 and ("%s/trace_%d"):format(folder, i) or nil)
  end
  return self:run(cases, world), folder
end

function Backend:single()
  if self.known then return self.known end
  local results, folder = self:sample(1)
  local rows = { operators = {}, free = {}, read = {}, cluster = self.cluster }
  for i, result in ipairs(results) do
    error_module.wrap(("sampled size %d"):format(i), add_samples, rows, ("%s/trace_%d"):format(folder, i), result)
  end
  for name, entry in pairs(rows.operators) do
    rows.free[name] = nil
    write_table(folder, name, entry)
  end
  self.known = { results = results, free = rows.free, read = rows.read,
    profile = require("ett.profile").from_samples({ folder }, { cache = false }) }
  return self.known
end

--- Fields of the plans and models that were read off as they were: right, of so many.
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

function Backend:view(layout)
  local known = self:single()
  local view = setmetatable({ profile = known.profile, free = known.free, wires = {} }, View)
  if layout.dp > 1 then
    local xs, ys = {}, {}
    for i, result in ipairs((self:sample(layout.dp))) do
      local parameters = require("ett.model.architecture").parameters(known.read[i].model)
      xs[i], ys[i] = 4.0 * parameters, middle(result.seconds) - middle(known.results[i].seconds)
    end
    for i = #ys, 1, -1 do -- noise can make a difference negative
      if ys[i] <= 0 then
        table.remove(xs, i)
        table.remove(ys, i)
      end
    end
    view.line = #xs > 1 and line_through(xs, ys) or nil
  end
  local right, count = self:fields_read()
  return view, { collectives = {}, host = View.host, fields_right = right, fields_read = count,
    collective_samples = layout.dp > 1 and #self.sampled or 0, disturbed_collective_samples = 0 }
end

function Backend:trainer(layout)
  self.on_stage(("training: %d sizes in %d process%s"):format(#layout.cases, layout.ranks,
    layout.ranks > 1 and "es" or ""))
  local cases = {}
  for i, case in ipairs(layout.cases) do
    local h, p = case.hyper, case.plan
    cases[i] = case_of({ h.layers, h.hidden, h.heads, h.vocab, p.micro_batch, 1, p.seq }, self.steps)
  end
  local results = self:run(cases, layout.ranks)
  return function(i)
    return { step_seconds = middle(results[i].seconds), records = {}, steps = #results[i].seconds,
      first_loss = results[i].first_loss, last_loss = results[i].last_loss }
  end
end

function Backend.close() end

--- Opens the back end.
---@param options table { out, sizes, scale, steps, on_stage, cluster (of one rank) }
function validate_torch.open(options)
  local python, why = require("ett.base.find").load("samplers", "torch").interpreter()
  if not python then error_module.raise("missing", "validate: %s", why) end
  local count = math.max(8, math.floor(24 * options.scale + 0.5))
  return setmetatable({ out = options.out, cluster = options.cluster, python = python, steps = options.steps, jobs = 0,
    sampled = sampled_sizes(options.sizes, count), on_stage = options.on_stage or function() end }, Backend)
end

return validate_torch

--- The ranks of `ett validate`: launching them, and timing training steps on each.
local error_module = require "ett.error"
local find = require "ett.find"
local folders = require "ett.folder"
local host = require "ett.host"
local json = require "ett.json"
local sample = require "ett.sample"
local validate_watch = require "ett.validate_watch"
local wires = require "ett.validate_wires"

local ranks = {}

local quote = require("ett.shell").quote

local function has(command) return os.execute(("command -v %s >/dev/null 2>&1"):format(command)) == true end

--- true, or nil and one sentence on what a layout of several ranks lacks here.
function ranks.available()
  local ok, why = find.load("samplers", "mpi").available()
  if not ok then return nil, why end
  if not has("mpirun") then return nil, "no mpirun here: install openmpi-bin" end
  return true
end

--- Why a launch failed, in one sentence: the rank that died, what ett said, or mpirun's own last words.
local function reason(text)
  local rank, signal = text:match("process rank (%d+) with PID %d+ on node %S+ exited on signal (%d+ ?%b())")
  if rank then return ("rank %s died: signal %s; the other ranks were ended"):format(rank, signal:gsub("%.$", "")) end
  local said = text:match("ett: ([^\n]+)")
  if said then return said end
  text = text:gsub("%-%-%-+\n?", ""):gsub("%s+", " ")
  return "mpirun says: " .. text:sub(-600)
end

--- Runs ett under mpirun; raises with what went wrong. The ranks end with this process, however it
--- ends, where setpriv (util-linux) is at hand.
---@param count integer ranks
---@param arguments string
---@param what string in words, for errors
function ranks.launch(count, arguments, what)
  local ok, why = ranks.available()
  if not ok then error_module.raise("missing", "%s needs %d ranks: %s", what, count, why) end
  find.load("samplers", "cpu").core().unpin() -- the ranks inherit where this process may run
  local crowded = wires.share(count) > 1 -- a rank that waits must not spin
  local pipe = io.popen(("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s exec %s mpirun --oversubscribe "
    .. "--bind-to none -n %d %s %s 2>&1 </dev/null"):format(crowded and "OMPI_MCA_mpi_yield_when_idle=1" or "",
    has("setpriv") and "setpriv --pdeathsig TERM" or "", count, quote(host.prefix .. "/bin/ett"), arguments))
  local text = pipe:read("a")
  if not pipe:close() then error_module.raise("io", "%s, %d ranks: %s", what, count, reason(text)) end
  return text
end

--- Mean over the chosen steps, and over ranks, of what was booked: per operator the processor time of
--- one rank, per collective what it added to the step.
local function lines(chosen, job, pp, share)
  local list = {}
  for i, first in ipairs(chosen[1].order) do
    local record = { name = first.name, pass = first.pass, shape = first.shape, bytes = first.bytes,
      ranks = first.ranks, calls = first.calls, seconds = 0.0 }
    for _, step in ipairs(chosen) do
      local r = step.order[i]
      -- Ranks that share a processor wait while the others work: only their processor time is spent.
      local seconds = r.bytes and share > 1 and share * r.processor_seconds or r.seconds
      record.seconds = record.seconds + seconds / #chosen
    end
    if job and pp == 1 then record.seconds = job.world:reduce(record.seconds, "sum") / job.size end
    list[i] = record
  end
  return list
end

-- Steps before the first that is timed, of a case and of each later turn.
local warm_steps, warm_again = 3, 1

--- Trains a case for `count` timed steps, behind a few that warm up.
local function visit(one, count, steps, job, watch)
  local trainer, plan = one.trainer, one.case.plan
  local warm = one.trained == 0 and warm_steps or warm_again
  for i = 1, warm + count do
    trainer:reset()
    local loss
    local seen = watch:observe(function() loss = trainer:step() end)
    local world = job and job.world
    if world then loss = world:reduce(trainer.last and loss or 0, "sum") / (plan.dp * plan.tp) end
    one.trained = one.trained + 1
    one.first_loss = one.first_loss or loss
    if one.trained <= warm_steps + steps then one.last_loss = loss end -- of the same step however many follow
    if i > warm then
      seen.cost, seen.order = seen.seconds, trainer.order
      one.seen[#one.seen + 1] = seen
    end
  end
end

local Training = {}
Training.__index = Training

--- Begins to train cases on this rank, all ranks of the job together, until `steps` steps of each were undisturbed or
--- four times as many are done. They are visited in turn: what disturbs the machine for a while disturbs few steps of
--- each.
---@param watch table of ett.validate_watch
function ranks.begin(cases, steps, job, watch)
  local self = setmetatable({ list = {}, steps = steps, job = job, watch = watch, turns = 0,
    count = math.max(1, steps // 4) }, Training)
  for i, case in ipairs(cases) do
    self.list[i] = { case = case, seen = {}, trained = 0,
      trainer = require("ett.validate_model").new { hyper = case.hyper, plan = case.plan, job = job } }
  end
  return self
end

--- Trains every case that wants it for a quarter of the steps. Returns whether there are to be more turns.
function Training:turn()
  self.turns = self.turns + 1
  local more = false
  for _, one in ipairs(self.list) do
    if self.watch:quiet(one.seen) < self.steps and #one.seen + self.count <= 4 * self.steps then
      if self.turns * self.count > self.steps then self.watch:await(0.5) end
      visit(one, self.count, self.steps, self.job, self.watch)
      more = true
    end
  end
  return more
end

--- What was measured: a step's time is the mean of the middle half of the undisturbed ones; with fewer than three of
--- these, of the three least disturbed.
---@return table[] { step_seconds, wall_seconds (median of all), steps, undisturbed_steps, foreign_percent, memory_ratio
--- and way_ratio (of the steps that count), disturbed, first_loss, last_loss, records }
function Training:results()
  local results = {}
  for i, one in ipairs(self.list) do
    local walls = {}
    for k, step in ipairs(one.seen) do walls[k] = step.cost end
    local chosen = self.watch:choose(one.seen, math.min(3, #one.seen))
    results[i] = { step_seconds = chosen.cost, wall_seconds = sample.stats(walls).median, steps = #walls,
      undisturbed_steps = chosen.quiet, foreign_percent = 100 * chosen.foreign, memory_ratio = chosen.memory,
      way_ratio = chosen.way, disturbed = chosen.quiet < math.min(3, self.steps), first_loss = one.first_loss,
      last_loss = one.last_loss, records = lines(chosen.chosen, self.job, one.case.plan.pp,
        self.job and wires.share(self.job.size) or 1) }
  end
  return results
end

--- Trains cases in this process alone: see Training:results.
function ranks.train(cases, steps)
  local training = ranks.begin(cases, steps, nil, validate_watch.new())
  repeat until not training:turn()
  return training:results()
end

local function write_json(path, value) folders.write(path, json.encode(value)) end

--- The ranks' side: reads what is asked, samples collectives, trains cases, writes rows and results (rank 0).
--- Samples and steps take turns: the machine that a step meets is the one that its collectives were sampled on.
function ranks.work(path)
  local request, why = json.read(path)
  if not request then error(why, 0) end
  local cpu = find.load("samplers", "cpu").core()
  local job = require("ett.dist").open()
  cpu.pin(job.local_rank % sample.processors())
  local own = require("ett.validate_kernels_cpu").host_seconds() -- all ranks at once, as they train
  local watch = validate_watch.new(job)
  local sampling = wires.begin(job, request.plan, request.effort, watch)
  local training = ranks.begin(request.cases, request.steps, job, watch)
  local sample_more, train_more = true, true
  while sample_more or train_more do
    for _ = 1, 2 do -- an undisturbed run takes eight turns of the one and four of the other
      if sample_more then sample_more = sampling:turn() end
    end
    if train_more then train_more = training:turn() end
  end
  local rows, results = sampling:rows(), training:results()
  if job.rank == 0 then
    wires.write(request.rows, rows, request.plan, own, job.size)
    write_json(request.results, results)
  end
  job.world:barrier()
end

--- Samples what the ranks of a plan cost each other, and trains cases with them.
---@param given table plan, count (ranks), cases, steps, effort, folder and name (of the files)
---@return table { host, rows, share } of the samples
---@return table[] of Training:results
function ranks.run(given)
  local function file(kind) return ("%s/%s_%s"):format(given.folder, kind, given.name) end
  local path, rows, results = file "ranks" .. ".json", file "wires" .. ".csv", file "steps" .. ".json"
  write_json(path, { plan = given.plan, cases = given.cases, steps = given.steps, effort = given.effort, rows = rows,
    results = results })
  ranks.launch(given.count, ("validate --worker %s"):format(quote(path)), "layout " .. given.name)
  local read = wires.read(rows)
  read.share = wires.share(given.count)
  return read, assert(json.read(results))
end

return ranks

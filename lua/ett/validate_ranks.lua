--- The ranks of `ett validate`: launching them, and timing training steps on each.
local error_module = require "ett.error"
local find = require "ett.find"
local folders = require "ett.folder"
local host = require "ett.host"
local json = require "ett.json"
local sample = require "ett.sample"
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
  require("ett.cpu").unpin() -- the ranks inherit where this process may run
  local crowded = wires.share(count) > 1 -- a rank that waits must not spin
  local pipe = io.popen(("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s exec %s mpirun --oversubscribe "
    .. "--bind-to none -n %d %s %s 2>&1 </dev/null"):format(crowded and "OMPI_MCA_mpi_yield_when_idle=1" or "",
    has("setpriv") and "setpriv --pdeathsig TERM" or "", count, quote(host.prefix .. "/bin/ett"), arguments))
  local text = pipe:read("a")
  if not pipe:close() then error_module.raise("io", "%s, %d ranks: %s", what, count, reason(text)) end
  return text
end

--- Wall seconds of a call of `run` over all ranks, and the share in which something else had a
--- processor. Ranks never sleep: one that waits looks
--- for its message all the time or hands the processor on to one that shares it.
local function observe(job, sharers, run)
  local world = job and job.world
  if world then world:barrier() end
  local start, processor = sample.now(), sample.thread_seconds()
  run()
  local stop = sample.now()
  if world then world:barrier() end -- who is done waits for the others, awake
  local passed, used = sample.now() - start, sample.thread_seconds() - processor
  if not world then return passed, (passed - used) / passed end
  local wall = world:reduce(stop, "max") - world:reduce(start, "min")
  local foreign = sharers:reduce(passed, "max") - sharers:reduce(used, "sum")
  return wall, world:reduce(foreign, "max") / wall
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

--- Executes a case on this rank, until `steps` steps were undisturbed or four times as many are done.
--- The step is the median wall time of the undisturbed ones; with fewer than three of these, of the
--- three least disturbed. { step_seconds, wall_seconds (median of all), steps, undisturbed_steps,
--- foreign_percent (of the steps that count), disturbed, first_loss, last_loss, records }.
function ranks.measure(case, steps, job)
  local trainer = require("ett.validate_model").new { hyper = case.hyper, plan = case.plan, job = job }
  local world = job and job.world
  local sharers = world and world:split(job.local_rank % sample.processors(), job.rank)
  local share = world and wires.share(job.size) or 1
  local seen, walls, first_loss, last_loss, warm, quiet = {}, {}, nil, nil, 3, 0
  for i = 1, 4 * steps + warm do
    trainer:reset()
    local loss
    local wall, foreign = observe(job, sharers, function() loss = trainer:step() end)
    if world then loss = world:reduce(trainer.last and loss or 0, "sum") / (case.plan.dp * case.plan.tp) end
    first_loss = first_loss or loss
    if i <= warm + steps then last_loss = loss end -- of the same step however many follow
    if i > warm then
      seen[#seen + 1] = { cost = wall, foreign = foreign, order = trainer.order }
      walls[#walls + 1] = wall
      if foreign <= wires.foreign then quiet = quiet + 1 end
      if quiet >= steps then break end
    end
  end
  local count = #seen
  local step, foreign, chosen = wires.undisturbed(seen, math.min(3, count))
  return { step_seconds = step, wall_seconds = sample.stats(walls).median, steps = count, undisturbed_steps = quiet,
    foreign_percent = 100 * foreign, disturbed = quiet < math.min(3, steps), first_loss = first_loss,
    last_loss = last_loss, records = lines(chosen, job, case.plan.pp, share) }
end

local function write_json(path, value) folders.write(path, json.encode(value)) end

--- The ranks' side: reads what is asked, samples collectives or trains cases, writes results (rank 0).
function ranks.work(path)
  local request, why = json.read(path)
  if not request then error(why, 0) end
  find.load("samplers", "cpu").available()
  local job = require("ett.dist").open()
  require("ett.cpu").pin(job.local_rank % sample.processors())
  if request.wires then
    local plan = request.wires
    local own = require("ett.validate_kernels_cpu").host_seconds() -- all ranks at once, as they train
    local rows = wires.sample(job, plan, request.effort)
    if job.rank == 0 then wires.write(request.out, rows, plan, own, job.size) end
  else
    local results = {}
    for i, case in ipairs(request.cases) do results[i] = ranks.measure(case, request.steps, job) end
    if job.rank == 0 then write_json(request.out, results) end
  end
  job.world:barrier()
end

local function ask(request, count, path, what)
  write_json(path, request)
  ranks.launch(count, ("validate --worker %s"):format(quote(path)), what)
end

--- Samples what the ranks of a plan cost each other: { host, rows, share }.
function ranks.wires(plan, count, folder, name, effort)
  local out = ("%s/wires_%s.csv"):format(folder, name)
  ask({ wires = plan, effort = effort, out = out }, count, ("%s/wires_%s.json"):format(folder, name),
    "sampling the collectives of layout " .. name)
  local read = wires.read(out)
  read.share = wires.share(count)
  return read
end

--- Trains cases with `count` ranks.
function ranks.measure_all(cases, count, steps, folder, name)
  local out = ("%s/steps_%s.json"):format(folder, name)
  ask({ cases = cases, steps = steps, out = out }, count, ("%s/cases_%s.json"):format(folder, name),
    "training layout " .. name)
  return assert(json.read(out))
end

return ranks

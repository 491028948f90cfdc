--- The ranks of `ett validate` on processors, and what they do together.
--
-- All that is measured with a number of ranks is measured side by side: operators, what the ranks cost each other, and
-- training steps take turns. The machine that a step meets is then the one that was sampled, for on a host with other
-- guests it does not stay as it is for minutes: products were seen 3 to 25 % slower from one minute to the next,
-- and the way between two processors twice as long.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local folders = require "ett.base.folder"
local json = require "ett.json"
local mpirun = require "ett.sampling.mpirun"
local quote = require("ett.base.shell").quote
local sample = require "ett.sample"
local turns = require "ett.sampling.turns"
local retention = require "ett.validate.retention"
local training = require "ett.validate.training"
local validate_watch = require "ett.validate.watch"
local wires = require "ett.validate.wires"

local must = error_module.must
local ranks = {}

local quantum = 0.1 -- samples and steps take turns: that share of each at a time

--- A function that samples the operators of a campaign, a turn at a time.
---@param one table file, folder
local function sampling(one, given, share, processor)
  return function()
    require("ett.validate.campaign").run(one.file, "sampling operators", "fp32", { out = one.folder, share = share,
      device = not share and processor or nil, check = given.check, on_turn = coroutine.yield })
  end
end

--- Medians of the fields that several readings of validate_kernels_cpu.host_seconds have.
local function medians(readings)
  local answer = {}
  for key, value in pairs(readings[1]) do
    local list = {}
    for i, reading in ipairs(readings) do list[i] = reading[key] end
    answer[key] = type(value) == "table" and medians(list) or sample.stats(list).median
  end
  return answer
end

--- What one rank does, together with all others of the job: samples operators and collectives and trains, in turn.
---@param given table of ranks.run
---@param share table? of ett.share; none: this process alone
---@return table answer of ranks.run on rank 0
local function work(given, share)
  local back_end = find.load("samplers", "cpu")
  local cpu, job = back_end.core(), share and share.job
  local processor = back_end.processor_of(job and job.local_rank or 0)
  local pinned <close> = setmetatable({}, { __close = function() cpu.unpin() end }) -- luacheck: ignore pinned
  must(cpu.pin(processor))
  local watch = validate_watch.new(job)
  local answer, readings, tasks = { layouts = {} }, {}, {}
  for _, one in ipairs(given.campaigns) do tasks[#tasks + 1] = sampling(one, given, share, processor) end
  local function task(step)
    tasks[#tasks + 1] = function()
      local progress
      repeat
        must(cpu.pin(processor)) -- the last campaign to end lets the thread run anywhere
        progress = step()
        if progress then coroutine.yield(progress) end
      until not progress
    end
  end
  local retained = retention.begin(given.near_bytes, given.far_bytes, job)
  task(function() -- all ranks at once, as they train
    readings[#readings + 1] = require("ett.validate.kernels_cpu").host_seconds(10)
    retained:turn()
    return #readings < training.turns and #readings / training.turns
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
    local trainings = training.begin(layout.cases, given.steps, job, watch)
    task(function()
      if trainings:turn() then return trainings:progress() end
      measured.results = trainings:results()
    end)
  end
  turns.take(tasks, nil, quantum)
  answer.host, answer.retention = medians(readings), retained:curve()
  return answer
end

--- The ranks' side of ranks.run.
---@param path string of what is asked
function ranks.work(path)
  local given, why = json.read(path)
  if not given then error(why, 0) end
  local share = require("ett.sampling.share").join()
  if not share then error_module.raise("usage", "validate --worker is started by mpirun, which this process is not") end
  local ok, raised = xpcall(function()
    local answer = work(given, share)
    if share.rank() == 0 then folders.write(given.answer, json.encode(answer)) end
  end, error_module.from)
  if not ok then
    if raised.kind == "interrupt" then error(raised, 0) end -- it dies of the signal, and mpirun ends the others
    io.stderr:write(("ett: %s\n"):format(tostring(raised)))
    share.abort(1)
  end
  share.leave()
end

--- Samples operators and what ranks cost each other, and trains with them, by as many ranks as are asked for.
---@param given table count (ranks; one: this process), campaigns (list of { file, folder }), near_bytes and far_bytes
--- (that their operands rotate through), check, layouts (list of { plan, cases }), steps, effort, folder (of files),
--- what (in words, for errors)
---@return table { host = of validate_kernels_cpu.host_seconds, retention = of Retention:curve, layouts = list of
--- { rows = of Sampling:rows, results = of Training:results } }
function ranks.run(given)
  if given.count == 1 then return work(given) end
  local function file(kind) return ("%s/%s_%d.json"):format(given.folder, kind, given.count) end
  given.answer = file "measured"
  folders.write(file "ranks", json.encode(given))
  find.load("samplers", "cpu").core().unpin() -- the ranks inherit where this process may run
  collectgarbage() -- what this process trained with is memory that the ranks need
  mpirun.run(given.count, ("validate --worker %s"):format(quote(file "ranks")), { what = given.what,
    log = ("%s/ranks_%d.log"):format(given.folder, given.count),
    environment = wires.share(given.count) > 1 and "OMPI_MCA_mpi_yield_when_idle=1" or nil }) -- none is to spin in vain
  return assert(json.read(given.answer))
end

return ranks

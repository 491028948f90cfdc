--- Trains the cases of `ett validate` on this rank, all ranks of a job together, and times their steps.
--
-- The truth of a case is the wall time of its step over all ranks, the mean of the middle half of those that nothing
-- disturbed (ett.validate.watch). Cases are visited in turn, and their turns are given between samples
-- (ett.validate.ranks): what slows the machine for a while slows few steps of each, and samples as much.
local sample = require "ett.sample"
local validate_watch = require "ett.validate.watch"
local wires = require "ett.validate.wires"

local validate_training = {}
local Training = {}
Training.__index = Training

--- Turns in which the undisturbed steps of a case are made.
validate_training.turns = 6

-- Steps before the first that is timed, of a case and of each later turn.
local warm_steps, warm_again = 3, 1

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

--- Begins to train cases until `steps` steps of each were undisturbed or three times as many are done.
---@param job table? of ett.dist; without one this process trains alone
---@param watch table of ett.validate.watch
function validate_training.begin(cases, steps, job, watch)
  local self = setmetatable({ list = {}, steps = steps, job = job, watch = watch, turns = 0,
    count = math.max(1, steps // validate_training.turns) }, Training)
  for i, case in ipairs(cases) do
    self.list[i] = { case = case, seen = {}, trained = 0,
      trainer = require("ett.validate.model").new { hyper = case.hyper, plan = case.plan, job = job } }
  end
  return self
end

--- Trains every case that wants it for some of the steps. Returns whether there are to be more turns.
function Training:turn()
  self.turns = self.turns + 1
  local more = false
  for _, one in ipairs(self.list) do
    if validate_watch.quiet(one.seen) < self.steps and #one.seen + self.count <= 3 * self.steps then
      visit(one, self.count, self.steps, self.job, self.watch)
      more = true
    end
  end
  return more
end

--- How much is done, where nothing was disturbed: 1 is all.
function Training:progress() return self.turns * self.count / self.steps end

--- What was measured: a step's time is the mean of the middle half of the undisturbed ones; with fewer than three of
--- these, of the three least disturbed.
---@return table[] { step_seconds, wall_seconds (median of all), steps, undisturbed_steps, foreign_percent (of the steps
--- that count), disturbed, first_loss, last_loss, records }
function Training:results()
  local results = {}
  for i, one in ipairs(self.list) do
    local walls = {}
    for k, step in ipairs(one.seen) do walls[k] = step.cost end
    local chosen = validate_watch.choose(one.seen, math.min(3, #one.seen))
    results[i] = { step_seconds = chosen.cost, wall_seconds = sample.stats(walls).median, steps = #walls,
      undisturbed_steps = chosen.quiet, foreign_percent = 100 * chosen.foreign,
      disturbed = chosen.quiet < math.min(3, self.steps), first_loss = one.first_loss, last_loss = one.last_loss,
      records = lines(chosen.chosen, self.job, one.case.plan.pp,
        self.job and wires.share(self.job.size) or 1) }
  end
  return results
end

return validate_training

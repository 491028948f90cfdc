--- Whether other programs had a processor while the ranks of `ett validate` ran something, and what counts of what was
--- run several times.
--
-- What else slows a machine is not sorted out. On a virtual machine the host's other guests slow memory by a third, and
-- the host moves processors so that a message between two takes twice as long, for seconds or for hours. Samples and
-- steps take turns and meet the same of it, so that what is typical of either belongs together; of the quickest of each
-- that could not be said.
local find = require "ett.base.find"
local sample = require "ett.sample"

local validate_watch = {}
local Watch = {}
Watch.__index = Watch

--- The largest share of other programs in what counts as undisturbed. (Interrupts take about 0.5 %.)
validate_watch.foreign = 0.02

--- A watch over this process, or over the ranks of a job; every rank calls it.
---@param job table? of ett.dist
function validate_watch.new(job)
  return setmetatable({ world = job and job.world,
    sharers = job and job.world:split(find.load("samplers", "cpu").processor_of(job.local_rank), job.rank) }, Watch)
end

--- Runs something on every rank at once. Ranks never sleep: one that waits looks for its message all the time or hands
--- the processor on to one that shares it.
---@return table { seconds = wall time over all ranks, foreign = share of it in which something else had a processor }
function Watch:observe(run)
  local world = self.world
  if world then world:barrier() end
  local start, processor = sample.now(), sample.thread_seconds()
  run()
  local stop = sample.now()
  if world then world:barrier() end -- who is done waits for the others, awake
  local passed, used = sample.now() - start, sample.thread_seconds() - processor
  if not world then return { seconds = passed, foreign = math.max(0.0, (passed - used) / passed) } end
  local wall = world:reduce(stop, "max") - world:reduce(start, "min")
  local foreign = self.sharers:reduce(passed, "max") - self.sharers:reduce(used, "sum")
  return { seconds = wall, foreign = math.max(0.0, world:reduce(foreign, "max") / wall) }
end

--- Whether something that was observed ran undisturbed.
function validate_watch.is_quiet(entry) return entry.foreign <= validate_watch.foreign end

--- How many of a list did.
function validate_watch.quiet(list)
  local count = 0
  for _, entry in ipairs(list) do count = count + (validate_watch.is_quiet(entry) and 1 or 0) end
  return count
end

--- Mean of the middle half of some numbers: between two states of a machine it moves with the share of either, where a
--- median jumps.
function validate_watch.middle(values)
  table.sort(values)
  local cut, sum = #values // 4, 0.0
  for i = cut + 1, #values - cut do sum = sum + values[i] end
  return sum / (#values - 2 * cut)
end

--- Of what was observed, with the cost that each stands for, that which ran undisturbed, or when this is fewer than
--- `least` the least disturbed.
---@param list table[] { cost=, foreign= }
---@return table { cost = mean of the middle half of theirs, foreign = mean share, chosen = the entries, quiet = how
--- many were undisturbed }
function validate_watch.choose(list, least)
  local order = {}
  for i, entry in ipairs(list) do order[i] = { entry = entry, at = i } end
  table.sort(order, function(a, b)
    if a.entry.foreign ~= b.entry.foreign then return a.entry.foreign < b.entry.foreign end
    return a.at < b.at
  end)
  local values, answer = {}, { foreign = 0.0, chosen = {}, quiet = 0 }
  for i, one in ipairs(order) do
    if validate_watch.is_quiet(one.entry) then answer.quiet = i elseif i > least then break end
    values[i], answer.chosen[i] = one.entry.cost, one.entry
    answer.foreign = answer.foreign + one.entry.foreign
  end
  answer.foreign, answer.cost = answer.foreign / #values, validate_watch.middle(values)
  return answer
end

return validate_watch

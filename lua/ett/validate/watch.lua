--- Detects whether other programs used a processor during a measurement of `ett validate`, and chooses the undisturbed
--- runs.
--
-- Only other programs are detected. Samples and steps take turns and meet the same machine states, so their typical
-- values are comparable; their minima may come from different states.
local by = require "ett.base.by"
local find = require "ett.base.find"
local sample = require "ett.sample"

local watch_module = {}
local Watch = {}
Watch.__index = Watch

--- The largest share of other programs in an undisturbed run. (Interrupts take about 0.5 %.)
watch_module.foreign = 0.02

--- Ranks on the fullest processor: rank r runs on allowed processor r modulo their number.
function watch_module.share(ranks)
  local processors = find.load("samplers", "cpu").processors()
  return (ranks + processors - 1) // processors
end

--- A watch over this process, or over the ranks of a job. Every rank calls it.
---@param job table? of ett.dist
function watch_module.new(job)
  return setmetatable({ world = job and job.world,
    sharers = job and job.world:split(find.load("samplers", "cpu").processor_of(job.local_rank), job.rank) }, Watch)
end

--- Runs a function on every rank at once. Ranks never sleep: a waiting rank polls, or yields to a rank on the same
--- processor. Processor time that no rank used therefore went to another program.
--- The processor on which other programs ran longest finishes last, and its ranks wait least. Their processor time
--- (busy) is the time of the run without other programs, if all ranks compute equally long between collectives.
---@return table { seconds = wall time over all ranks, foreign = share of it in which another program had a processor,
--- busy = least processor time of the ranks on one processor }
function Watch:observe(run)
  local world = self.world
  if world then world:barrier() end
  local start, processor = sample.now(), sample.thread_seconds()
  run()
  local stop = sample.now()
  if world then world:barrier() end -- a finished rank polls here
  local passed, used = sample.now() - start, sample.thread_seconds() - processor
  if not world then return { seconds = passed, foreign = math.max(0.0, (passed - used) / passed), busy = used } end
  local wall = world:reduce(stop, "max") - world:reduce(start, "min")
  local busy = self.sharers:reduce(used, "sum")
  local foreign = self.sharers:reduce(passed, "max") - busy
  return { seconds = wall, foreign = math.max(0.0, world:reduce(foreign, "max") / wall),
    busy = world:reduce(busy, "min") }
end

--- Whether an observed run was undisturbed.
function watch_module.is_quiet(entry) return entry.foreign <= watch_module.foreign end

--- Number of undisturbed runs in a list.
function watch_module.quiet(list)
  local count = 0
  for _, entry in ipairs(list) do count = count + (watch_module.is_quiet(entry) and 1 or 0) end
  return count
end

--- Mean of the middle half of some numbers. With two machine states it moves smoothly; a median would jump.
function watch_module.middle(values)
  table.sort(values)
  local cut, sum = #values // 4, 0.0
  for i = cut + 1, #values - cut do sum = sum + values[i] end
  return sum / (#values - 2 * cut)
end

--- Chooses the undisturbed runs of a list; if these are fewer than `least`, the `least` least disturbed.
---@param list table[] { cost=, foreign= }
---@return table { cost = mean of the middle half, foreign = mean share, chosen = the entries, quiet = number of
--- undisturbed ones }
function watch_module.choose(list, least)
  local order = {}
  for i, entry in ipairs(list) do order[i] = { entry = entry, at = i } end
  table.sort(order, by(function(one) return one.entry.foreign end, "at"))
  local values, answer = {}, { foreign = 0.0, chosen = {}, quiet = 0 }
  for i, one in ipairs(order) do
    if watch_module.is_quiet(one.entry) then answer.quiet = i elseif i > least then break end
    values[i], answer.chosen[i] = one.entry.cost, one.entry
    answer.foreign = answer.foreign + one.entry.foreign
  end
  answer.foreign, answer.cost = answer.foreign / #values, watch_module.middle(values)
  return answer
end

return watch_module

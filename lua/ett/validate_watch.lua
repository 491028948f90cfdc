--- Whether the machine was disturbed while the ranks of `ett validate` ran something: by other programs on their
-- processors, by what slows their memory, or by what lies between them. On a virtual machine those two are the host's:
-- other guests use the memory, and processors are moved so that what passes between them goes a longer way, for seconds
-- at a time, twice as slow.
--
-- The probe of the memory (ett.sample_sentinel) runs on every processor of the job at once, as the ranks compute at
-- once, and the slowest counts; that of the way between ranks is a small all_reduce, where none shares a processor.
-- Every rank knows the same figures.
local find = require "ett.find"
local sample = require "ett.sample"
local sample_sentinel = require "ett.sample_sentinel"

local validate_watch = {}
local Watch = {}
Watch.__index = Watch

--- The largest share of other programs in what counts as undisturbed. (Interrupts take about 0.5 %.)
validate_watch.foreign = 0.02

--- How much slower than its fastest the way between ranks may be. (Two ways were seen: 0.9 to 1.6, and 2.2 to 3.1.)
validate_watch.between = 1.8

local bytes = 96 << 20 -- that a probe's reads go round in: more than caches hold
local message = 16384 -- elements of an all_reduce between ranks
local warm, messages = 3, 4 -- how many of them bring it into the caches again, and how many make a probe

--- A watch over this process, or over the ranks of a job; every rank calls it.
---@param job table? of ett.dist
function validate_watch.new(job)
  local self = setmetatable({ world = job and job.world, memory = sample_sentinel.new() }, Watch)
  if not job or job.local_rank < sample.processors() then -- one rank of each processor
    self.pool = assert(find.load("samplers", "cpu").core().pool(bytes, 1))
  end
  if job then
    self.sharers = job.world:split(job.local_rank % sample.processors(), job.rank)
    if job.size > 1 and job.size <= sample.processors() then
      self.way, self.message = sample_sentinel.new(), sample.tensor(message)
    end
  end
  for _ = 1, 5 do self:probe() end
  return self
end

--- Probes the memory and the way between ranks, between what is measured.
function Watch:probe()
  local world = self.world
  if world then world:barrier() end
  local seconds = self.pool and self.pool:probe() or 0.0
  self.memory:add(world and world:reduce(seconds, "max") or seconds)
  if not self.way then return end
  local start
  for i = 1, warm + messages do
    if i == warm + 1 then start = sample.now() end
    self.message:fill(0)
    world:run("all_reduce", self.message)
  end
  self.way:add(world:reduce(sample.now() - start, "max"))
end

-- Wall seconds of a call of `run` over all ranks, and the share in which something else had a processor. Ranks never
-- sleep: one that waits looks for its message all the time or hands the processor on to one that shares it.
local function timed(self, run)
  local world = self.world
  if world then world:barrier() end
  local start, processor = sample.now(), sample.thread_seconds()
  run()
  local stop = sample.now()
  if world then world:barrier() end -- who is done waits for the others, awake
  local passed, used = sample.now() - start, sample.thread_seconds() - processor
  if not world then return passed, (passed - used) / passed end
  local wall = world:reduce(stop, "max") - world:reduce(start, "min")
  local foreign = self.sharers:reduce(passed, "max") - self.sharers:reduce(used, "sum")
  return wall, world:reduce(foreign, "max") / wall
end

--- Runs something on every rank at once: { seconds = wall time over all ranks, foreign = share of it in which other
--- programs had a processor, memory and way = what the probes before and after say }, for Watch:choose.
function Watch:observe(run)
  self:probe()
  local seconds, foreign = timed(self, run)
  self:probe()
  return { seconds = seconds, foreign = math.max(0.0, foreign), memory = self.memory:figure(),
    way = self.way and self.way:figure() }
end

-- 1 is the most that counts as undisturbed.
local function disturbance(self, entry)
  local worst = math.max(entry.foreign / validate_watch.foreign,
    (self.memory:ratio(entry.memory) - 1) / (self.memory:limit() - 1))
  if entry.way then worst = math.max(worst, (self.way:ratio(entry.way) - 1) / (validate_watch.between - 1)) end
  return worst
end

--- Waits, for so many seconds at most, until nothing is disturbed.
function Watch:await(seconds)
  local start = sample.now()
  while disturbance(self, { foreign = 0.0, memory = self.memory:last(3), way = self.way and self.way:last(3) }) > 1 do
    local waited = sample.now() - start
    if self.world then waited = self.world:reduce(waited, "max") end
    if waited > seconds then break end
    sample.pause(0.003)
    for _ = 1, 3 do self:probe() end
  end
end

--- Whether something that was observed ran undisturbed.
function Watch:is_quiet(entry) return disturbance(self, entry) <= 1 end

--- Mean of the middle half of some numbers: between two states of a machine it moves with the share of either, where a
--- median jumps.
function validate_watch.middle(values)
  table.sort(values)
  local cut, sum = #values // 4, 0.0
  for i = cut + 1, #values - cut do sum = sum + values[i] end
  return sum / (#values - 2 * cut)
end

--- How many of a list did.
function Watch:quiet(list)
  local count = 0
  for _, entry in ipairs(list) do count = count + (self:is_quiet(entry) and 1 or 0) end
  return count
end

--- Of entries of Watch:observe, with the cost that each stands for, those that ran undisturbed, or when these are fewer
--- than `least` the least disturbed.
---@param list table[] { cost=, foreign=, memory=, way= }
---@return table { cost = mean of the middle half of theirs, foreign = mean share, memory and way = mean ratio of the
--- probes to undisturbed ones (way: nil where it is not probed), chosen = the entries, quiet = how many were
--- undisturbed }
function Watch:choose(list, least)
  local order = {}
  for i, entry in ipairs(list) do order[i] = { entry = entry, disturbance = disturbance(self, entry), at = i } end
  table.sort(order, function(a, b)
    if a.disturbance ~= b.disturbance then return a.disturbance < b.disturbance end
    return a.at < b.at
  end)
  local values, answer = {}, { foreign = 0.0, memory = 0.0, way = self.way and 0.0, chosen = {}, quiet = 0 }
  for i, one in ipairs(order) do
    if one.disturbance <= 1 then answer.quiet = i elseif i > least then break end
    values[i], answer.chosen[i] = one.entry.cost, one.entry
    answer.foreign = answer.foreign + one.entry.foreign
    answer.memory = answer.memory + self.memory:ratio(one.entry.memory)
    if self.way then answer.way = answer.way + self.way:ratio(one.entry.way) end
  end
  answer.foreign, answer.memory = answer.foreign / #values, answer.memory / #values
  answer.way = answer.way and answer.way / #values
  answer.cost = validate_watch.middle(values)
  return answer
end

return validate_watch

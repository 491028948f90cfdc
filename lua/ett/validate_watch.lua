--- Whether the machine was disturbed while the ranks of `ett validate` ran something: by other programs on their
-- processors, or by what slows their memory (ett.sample_sentinel; on a virtual machine, other guests of its host).
--
-- The probe of the memory runs on every processor of the job at once, as the ranks compute at once, and the slowest
-- counts: every rank of the job knows the same figures.
local find = require "ett.find"
local sample = require "ett.sample"
local sample_sentinel = require "ett.sample_sentinel"

local validate_watch = {}
local Watch = {}
Watch.__index = Watch

--- The largest share of other programs in what counts as undisturbed. (Interrupts take about 0.5 %.)
validate_watch.foreign = 0.02

local bytes = 96 << 20 -- that a probe's reads go round in: more than caches hold

--- A watch over this process, or over the ranks of a job; every rank calls it.
---@param job table? of ett.dist
---@param known number? seconds of a probe undisturbed, of an earlier watch over as many ranks
function validate_watch.new(job, known)
  local self = setmetatable({ world = job and job.world, sentinel = sample_sentinel.new(known),
    sharers = job and job.world:split(job.local_rank % sample.processors(), job.rank) }, Watch)
  if not job or job.local_rank < sample.processors() then -- one rank of each processor
    self.pool = assert(find.load("samplers", "cpu").core().pool(bytes, 1))
  end
  for _ = 1, 5 do self:probe() end
  return self
end

--- Probes the memory, between what is measured.
function Watch:probe()
  if self.world then self.world:barrier() end
  local seconds = self.pool and self.pool:probe() or 0.0
  self.sentinel:add(self.world and self.world:reduce(seconds, "max") or seconds)
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
--- programs had a processor, figure = what the probes before and after say of the memory }, for Watch:choose.
function Watch:observe(run)
  self:probe()
  local seconds, foreign = timed(self, run)
  self:probe()
  return { seconds = seconds, foreign = foreign, figure = self.sentinel:figure() }
end

--- Waits, for so many seconds at most, until the memory is undisturbed.
function Watch:await(seconds)
  local start = sample.now()
  while self.sentinel:ratio(self.sentinel:last(3)) > self.sentinel:limit() do
    local waited = sample.now() - start
    if self.world then waited = self.world:reduce(waited, "max") end
    if waited > seconds then break end
    sample.pause(0.003)
    for _ = 1, 3 do self:probe() end
  end
end

-- 1 is the most that counts as undisturbed.
local function disturbance(self, entry)
  local limit = self.sentinel:limit()
  return math.max(entry.foreign / validate_watch.foreign, (self.sentinel:ratio(entry.figure) - 1) / (limit - 1))
end

--- Whether something { foreign = share of other programs, figure = } ran undisturbed.
function Watch:is_quiet(entry) return disturbance(self, entry) <= 1 end

--- How many of a list did.
function Watch:quiet(list)
  local count = 0
  for _, entry in ipairs(list) do count = count + (self:is_quiet(entry) and 1 or 0) end
  return count
end

--- Of entries of Watch:observe, with the cost that each stands for, those that ran undisturbed, or when these are fewer
--- than `least` the least disturbed.
---@param list table[] { cost=, foreign=, figure= }
---@return table { cost = their median, foreign = mean share, memory = mean ratio of the probes to undisturbed ones,
--- chosen = the entries, quiet = how many were undisturbed }
function Watch:choose(list, least)
  local order = {}
  for i, entry in ipairs(list) do order[i] = { entry = entry, disturbance = disturbance(self, entry), at = i } end
  table.sort(order, function(a, b)
    if a.disturbance ~= b.disturbance then return a.disturbance < b.disturbance end
    return a.at < b.at
  end)
  local values, answer = {}, { foreign = 0.0, memory = 0.0, chosen = {}, quiet = 0 }
  for i, one in ipairs(order) do
    if one.disturbance <= 1 then answer.quiet = i elseif i > least then break end
    values[i], answer.chosen[i] = one.entry.cost, one.entry
    answer.foreign = answer.foreign + one.entry.foreign
    answer.memory = answer.memory + self.sentinel:ratio(one.entry.figure)
  end
  answer.foreign, answer.memory = answer.foreign / #values, answer.memory / #values
  answer.cost = sample.stats(values).median
  return answer
end

--- A probe of the machine undisturbed, seconds: what the next watch over as many ranks is to know.
function Watch:undisturbed() return self.sentinel:undisturbed() end

return validate_watch

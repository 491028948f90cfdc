--- Samples the time that collectives add to a step: after stretches of computation, in all groups of a layout at once,
--- with ranks pinned to the processors of training.
--
--   seconds = (time of n rounds of [stretch, collective] without other programs - k C) / n
--
-- C: mean processor time of a rank's n stretches; k: ranks on the fullest processor. A step with k C of computation and
-- these collectives is then predicted exactly, if its stretches are alike. A synchronised start would measure less: in
-- a step, ranks arrive one after another, buffers were just written, and other groups use the same caches and memory.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local sample = require "ett.sample"
local space = require "ett.sampling.space"
local watch_module = require "ett.validate.watch"

local wires = {}

--- By group: { collective, elements of the whole message, stretch in seconds, points }.
wires.designs = {
  tp = { { "all_reduce", { 64, 262144 }, { 40e-6, 2e-3 }, 34 } },
  dp = { { "all_reduce", { 30000, 12000000 }, { 2e-3, 60e-3 }, 36 } },
  pp = { { "send_recv", { 4096, 262144 }, { 400e-6, 10e-3 }, 14 } },
}

local function between(range, at) return range[1] * (range[2] / range[1]) ^ at end

--- A function that computes for some seconds: products of two sizes, whose weights rotate through more than a private
--- cache holds.
local function stretches()
  local cpu = find.load("samplers", "cpu").core()
  local list = {}
  for i, size in ipairs { { 64, 128, 128 }, { 128, 256, 256 } } do
    local m, n, k = table.unpack(size)
    local unit = { dims = { batch = 1, m = m, n = n, k = k }, input = sample.tensor(m * k):normal(i, 1),
      output = sample.tensor(m * n), weights = {}, turn = 0 }
    local weights = sample.tensor(n * k):normal(i, 1)
    for w = 1, (16 << 20) // (4 * n * k) do unit.weights[w] = sample.tensor(n * k):copy(weights) end
    list[i] = unit
  end
  local function run(unit, times)
    for _ = 1, times do
      unit.turn = unit.turn % #unit.weights + 1
      cpu.run("linear", "forward", unit.dims, { unit.input, unit.weights[unit.turn], unit.output })
    end
  end
  for _, unit in ipairs(list) do
    local rounds = {}
    for r = 1, 9 do
      local start = sample.thread_seconds()
      run(unit, 20)
      rounds[r] = (sample.thread_seconds() - start) / 20
    end
    unit.seconds = sample.stats(rounds).median
  end
  return function(seconds)
    local unit = seconds > 20 * list[2].seconds and list[2] or list[1]
    run(unit, math.max(1, math.floor(seconds / unit.seconds + 0.5)))
  end
end

--- One round of two stages: computation and a message there, computation and a message back. A receiver only waits, so
--- the stages compute in turn.
local function there_and_back(group, tensor, compute)
  local busy
  if group:rank() == 0 then
    busy = compute()
    group:send(tensor, 1)
    group:receive(tensor, 1)
  else
    group:receive(tensor, 0)
    busy = compute()
    group:send(tensor, 0)
  end
  return busy
end

-- Rounds of a visit: about 10 ms. The sample is their mean.
local function rounds_of(k, point) return math.max(1, math.min(32, math.ceil(0.01 / (k * point.stretch)))) end

--- One visit of a point on every rank, as of Watch:observe. Its cost excludes the time of other programs.
local function visit(k, point, stretch, watch)
  local group, tensor = point.over, point.tensor
  local function compute()
    local start = sample.thread_seconds()
    stretch(point.stretch)
    tensor:fill(0) -- a step has just written what it sends
    return sample.thread_seconds() - start
  end
  local pair, busy = point.kind == "send_recv", 0.0
  local function run(rounds)
    for _ = 1, group and rounds or 0 do
      if pair then
        busy = busy + there_and_back(group, tensor, compute)
      else
        busy = busy + compute()
        group:run(point.kind, tensor)
      end
    end
  end
  run(1) -- the caches hold another point's buffers
  busy = 0.0
  local n = rounds_of(k, point)
  local seen = watch:observe(function() run(n) end)
  local mean = watch.world:reduce(busy, "sum") / watch.world:reduce(group and 1 or 0, "sum")
  seen.cost = pair and (seen.seconds * (1 - seen.foreign) - 2 * mean) / (2 * n) or (seen.busy - k * mean) / n
  return seen
end

--- Visits of a point; up to twice as many if half of them were disturbed.
wires.visits = 8

--- The fewest visits used; if fewer are undisturbed, the least disturbed ones.
wires.least = 3

--- The points of a plan's groups, in the order of their designs.
local function points_of(groups, effort)
  local list = {}
  for _, name in ipairs { "tp", "dp", "pp" } do
    local group = groups[name .. "_group"]
    -- In a pipeline of more than two stages, the first two represent every pair.
    local degree = group:size()
    if name == "pp" and degree > 2 then
      local pair = group:split(group:rank() < 2 and 0 or -1, group:rank())
      group = pair:is_member() and pair or nil
    end
    for _, design in ipairs(degree > 1 and wires.designs[name] or {}) do
      local kind, sizes, lengths, count = table.unpack(design)
      local buffer = sample.tensor(sizes[2])
      for i = 1, math.max(6, math.floor(count * effort)) do
        local elements = math.floor(between(sizes, space.halton(i, 1, 7)) / degree + 0.5) * degree
        list[#list + 1] = { group = name, over = group, kind = kind, elements = elements,
          stretch = between(lengths, space.halton(i, 2, 7)), tensor = buffer:view(1, elements), visits = {} }
      end
    end
  end
  return list
end

local Sampling = {}
Sampling.__index = Sampling

--- Begins to sample the groups of a plan. Every rank of the job calls it and its methods. Points are visited in turn,
--- so that the visits of each lie apart: disturbances last seconds.
---@param effort number? fraction of the points of the designs; below 1 also of the visits
---@param watch table of ett.validate.watch
function wires.begin(job, plan, effort, watch)
  return setmetatable({ k = watch_module.share(job.size), watch = watch, stretch = stretches(), turns = 0,
    visits = math.max(3, math.floor(wires.visits * math.min(1, effort or 1))),
    points = points_of(require("ett.validate.model").groups(plan, job), effort or 1) }, Sampling)
end

--- Visits each unfinished point once. Returns whether more turns are needed.
function Sampling:turn()
  self.turns = self.turns + 1
  local more = self.turns < self.visits
  for _, point in ipairs(self.points) do
    if self.turns <= self.visits or 2 * watch_module.quiet(point.visits) < self.visits then
      point.visits[#point.visits + 1] = visit(self.k, point, self.stretch, self.watch)
      more = more or 2 * watch_module.quiet(point.visits) < self.visits
    end
  end
  return more and self.turns < 2 * self.visits
end

--- Share of the work done, if no visit was disturbed.
function Sampling:progress() return self.turns / self.visits end

--- The rows so far, on every rank.
function Sampling:rows()
  local rows = {}
  for i, point in ipairs(self.points) do
    local chosen = watch_module.choose(point.visits, wires.least)
    rows[i] = { group = point.group, kind = point.kind, elements = point.elements, stretch = point.stretch,
      seconds = chosen.cost, foreign = chosen.foreign, quiet = chosen.quiet, visits = #point.visits }
  end
  return rows
end

function wires.disturbed(rows)
  local count = 0
  for _, row in ipairs(rows) do count = count + (row.quiet < wires.least and 1 or 0) end
  return count
end

local columns = "group,collective,shape,stretch(us),dur(us),foreign,quiet,visits"

--- Writes rows as a table with a `#` header.
function wires.write(path, rows, plan, host, ranks)
  local lines = { "# ett validate: collectives behind stretches of computing",
    ("# layout: dp %d tp %d pp %d"):format(plan.dp, plan.tp, plan.pp),
    ("# processors: %d, ranks on the fullest: %d"):format(find.load("samplers", "cpu").processors(),
      watch_module.share(ranks)),
    ("# host(us): %.4f an operator, %.4f its call, %.5f a token, %.5f a token of a split vocabulary"):format(
      host.operator_seconds * 1e6, host.call_seconds * 1e6, host.token_seconds.embedding * 1e6,
      host.token_seconds.cross_entropy * 1e6), columns }
  for _, r in ipairs(rows) do
    lines[#lines + 1] = ("%s,%s,%d,%.3f,%.3f,%.4f,%d,%d"):format(r.group, r.kind, r.elements, r.stretch * 1e6,
      r.seconds * 1e6, r.foreign, r.quiet, r.visits)
  end
  error_module.must(require("ett.io").write(path, table.concat(lines, "\n") .. "\n"))
end

return wires

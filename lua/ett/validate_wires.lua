--- What a layout's ranks cost each other, sampled where a step pays it: collectives behind
-- stretches of computing, by every group of the layout at once, the ranks on the processors they
-- train on.
--
-- A collective between ranks that start together costs less than in a step: there its ranks
-- arrive one after another, its buffers were just written, and other groups use the same caches and
-- memory. And ranks that share a processor take turns: while one waits another computes, so
-- nothing but their processor time counts. So the sample is not a collective's own duration but
-- what it adds to a step:
--
--   seconds = (wall time of n rounds of [stretch, collective] - k C) / n
--
-- C: mean processor time of a rank's n stretches; k: ranks on the fullest processor. A step of k C of
-- computing and these collectives is then right by construction where the stretches are like a
-- step's, and the prediction asks for that length (feature `stretch`).
local cpu = require "ett.cpu"
local sample = require "ett.sample"

local wires = {}

--- By group: { collective, elements of the whole message, stretch in seconds, points }.
wires.designs = {
  tp = { { "all_reduce", { 64, 262144 }, { 40e-6, 2e-3 }, 34 } },
  dp = { { "all_reduce", { 30000, 12000000 }, { 2e-3, 60e-3 }, 24 } },
  pp = { { "send_recv", { 4096, 262144 }, { 400e-6, 10e-3 }, 14 } },
}

--- Ranks on the fullest processor: rank r of a machine runs on processor r modulo their number.
function wires.share(ranks) return (ranks + sample.processors() - 1) // sample.processors() end

local function between(range, at) return range[1] * (range[2] / range[1]) ^ at end

--- Products of two sizes whose weights rotate through more than a private cache holds.
local function stretches()
  local list = {}
  for i, size in ipairs { { 64, 128, 128 }, { 128, 256, 256 } } do
    local m, n, k = table.unpack(size)
    local unit = { dims = { batch = 1, m = m, n = n, k = k }, input = sample.tensor(m * k):normal(i, 1),
      output = sample.tensor(m * n), weights = {}, turn = 0 }
    for w = 1, (16 << 20) // (4 * n * k) do unit.weights[w] = sample.tensor(n * k):normal(w, 1) end
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

--- One round of a stage pair: a message goes there behind a stretch, and one comes back. The stages
--- compute in turn, as a message's receiver has nothing else to do.
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

--- Times one point on every rank: seconds a collective, and the share of the wall time in which
--- other programs had a processor.
local function measure(job, k, group, sharers, kind, elements, seconds, stretch)
  local world = job.world
  local tensor = sample.tensor(elements)
  local function compute()
    local start = sample.thread_seconds()
    stretch(seconds)
    tensor:fill(0) -- a step has just written what it sends
    return sample.thread_seconds() - start
  end
  local pair = kind == "send_recv"
  local n = math.max(1, math.min(16, math.ceil(0.015 / (k * seconds + elements * 1e-9))))
  local costs, kept, tries = {}, 0, 0
  repeat
    tries = tries + 1
    world:barrier()
    local start, processor, busy = sample.now(), sample.thread_seconds(), 0.0
    for _ = 1, n do
      if not group then
        break
      elseif pair then
        busy = busy + there_and_back(group, tensor, compute)
      else
        busy = busy + compute()
        group:run(kind, tensor)
      end
    end
    local stop = sample.now()
    local used = sharers:reduce(sample.thread_seconds() - processor, "sum")
    local wall = world:reduce(stop, "max") - world:reduce(start, "min")
    local mean = world:reduce(busy, "sum") / world:reduce(group and 1 or 0, "sum")
    local foreign = world:reduce(wall - used, "max") / wall
    if foreign > wires.foreign then wall = wall * (1 - foreign) end -- without the time that others had
    local cost = pair and (wall - 2 * mean) / (2 * n) or (wall - k * mean) / n
    costs[tries] = { cost = cost, foreign = foreign }
    if foreign <= wires.foreign then kept = kept + 1 end
  until kept > 4 or tries >= 12
  table.remove(costs, 1) -- the first round warms up
  return wires.undisturbed(costs, 3)
end

--- The largest share of other programs in what counts as undisturbed. (Interrupts take about 0.5 %.)
wires.foreign = 0.02

--- How many of some rows other programs disturbed.
function wires.disturbed(rows)
  local count = 0
  for _, row in ipairs(rows) do count = count + (row.foreign > wires.foreign and 1 or 0) end
  return count
end

--- Of { cost=, foreign= } those that no other program disturbed, or when these are fewer than
--- `least` the least disturbed ones: median cost, mean foreign share, the entries.
function wires.undisturbed(list, least)
  table.sort(list, function(a, b) return a.foreign < b.foreign end)
  local values, foreign, chosen = {}, 0.0, {}
  for i, entry in ipairs(list) do
    if i > least and entry.foreign > wires.foreign then break end
    values[i], chosen[i] = entry.cost, entry
    foreign = foreign + entry.foreign
  end
  return sample.stats(values).median, foreign / #values, chosen
end

--- Samples the groups of a plan; every rank of the job calls it. Returns the rows on every rank.
---@param effort number? size of the designs: 1 is all of their points
function wires.sample(job, plan, effort)
  local groups = require("ett.validate_model").groups(plan, job)
  local k = wires.share(job.size)
  local sharers = job.world:split(job.local_rank % sample.processors(), job.rank)
  local stretch = stretches()
  local rows = {}
  for _, name in ipairs { "tp", "dp", "pp" } do
    local group = groups[name .. "_group"]
    -- A line of more than two stages: its first two stand for every pair.
    local degree = group:size()
    if name == "pp" and degree > 2 then
      local pair = group:split(group:rank() < 2 and 0 or -1, group:rank())
      group = pair:is_member() and pair or nil
    end
    for _, design in ipairs(degree > 1 and wires.designs[name] or {}) do
      local kind, sizes, lengths, points = table.unpack(design)
      points = math.max(6, math.floor(points * (effort or 1)))
      for i = 1, points do
        local u = { sample.halton(i, 1, 7), sample.halton(i, 2, 7) }
        local elements = math.floor(between(sizes, u[1]) / degree + 0.5) * degree
        local seconds = between(lengths, u[2])
        local cost, foreign = measure(job, k, group, sharers, kind, elements, seconds, stretch)
        rows[#rows + 1] = { group = name, kind = kind, elements = elements, stretch = seconds, seconds = cost,
          foreign = foreign }
      end
    end
  end
  return rows
end

local columns = "group,collective,shape,stretch(us),dur(us),foreign"

--- Writes rows as a table with a `#` header.
function wires.write(path, rows, plan, host, ranks)
  local file = assert(io.open(path, "w"))
  file:write("# ett validate: collectives behind stretches of computing\n")
  file:write(("# layout: dp %d tp %d pp %d\n"):format(plan.dp, plan.tp, plan.pp))
  file:write(("# processors: %d, ranks on the fullest: %d\n"):format(sample.processors(), wires.share(ranks)))
  file:write(("# host(us): %.4f an operator, %.5f a token, %.5f a token of a split vocabulary\n%s\n"):format(
    host.operator_seconds * 1e6, host.token_seconds.embedding * 1e6, host.token_seconds.cross_entropy * 1e6, columns))
  for _, r in ipairs(rows) do
    file:write(("%s,%s,%d,%.3f,%.3f,%.4f\n"):format(r.group, r.kind, r.elements, r.stretch * 1e6, r.seconds * 1e6,
      r.foreign))
  end
  file:close()
end

--- Reads what wires.write wrote: { host=, rows= }.
function wires.read(path)
  local read = { rows = {} }
  for line in io.lines(path) do
    local call, token, join = line:match("^# host%(us%): (%S+) an operator, (%S+) a token, (%S+) a token")
    if call then
      read.host = { operator_seconds = call * 1e-6, token_seconds = { embedding = token * 1e-6,
        cross_entropy = join * 1e-6 } }
    end
    local group, kind, elements, stretch, seconds, foreign =
      line:match("^(%l+),([%l_]+),(%d+),([^,]+),([^,]+),(.*)$")
    if group then
      read.rows[#read.rows + 1] = { group = group, kind = kind, elements = math.tointeger(tonumber(elements)),
        stretch = stretch * 1e-6, seconds = seconds * 1e-6, foreign = tonumber(foreign) }
    end
  end
  return read
end

return wires

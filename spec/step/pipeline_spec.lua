--- Laws of pipelines: the event engine against closed forms, an independent longest-path
--- oracle and what the literature proves.
local step_core = require "step_core"
local generator = require("random").shares
local near = require "near"

local function filled(n, value)
  local list = {}
  for i = 1, n do list[i] = type(value) == "function" and value() or value end
  return list
end

--- The units of every stage as a schedule gives them.
local function without_times(units)
  local stages = {}
  for stage, list in ipairs(units) do
    stages[stage] = {}
    for k, unit in ipairs(list) do stages[stage][k] = { unit[1], unit[2], unit[3] } end
  end
  return stages
end

--- Longest path by plain recursion over the rules, with nothing of the engine: a unit starts
--- when the unit before it on its rank has ended (and sent, if sends block) and its input came.
local function oracle(p, orders)
  local slices = p.stages * (p.chunks or 1)
  local position, memo = {}, {}
  local function key(kind, slice, mb) return kind .. slice .. "." .. mb end
  for rank = 1, p.stages do
    for k, unit in ipairs(orders[rank]) do
      local slice = (unit[3] - 1) * p.stages + rank
      position[key(unit[1], slice, unit[2])] = { rank = rank, k = k }
    end
  end
  local finish
  local function release(unit, slice, mb) -- when the rank is free again after a unit
    local send = 0
    if p.blocking_sends then
      if unit == "F" and slice < slices then send = p.send_forward[slice] end
      if unit == "B" and slice > 1 then send = p.send_backward[slice - 1] end
    end
    return finish(unit, slice, mb) + send
  end
  -- when a message is through: blocking ones leave at once, others queue on the rank's link
  local function arrive(unit, slice, mb)
    if p.blocking_receives then return finish(unit, slice, mb) end
    local seconds = unit == "F" and p.send_forward[slice] or p.send_backward[slice - 1]
    local id = "arrive" .. key(unit, slice, mb)
    if memo[id] then return memo[id] end
    local start = finish(unit, slice, mb)
    if not p.blocking_sends then
      local at = position[key(unit, slice, mb)]
      for k = at.k - 1, 1, -1 do
        local before = orders[at.rank][k]
        local its = (before[3] - 1) * p.stages + at.rank
        if before[1] == unit and (unit == "F" and its < slices or unit == "B" and its > 1) then
          start = math.max(start, arrive(unit, its, before[2]))
          break
        end
      end
    end
    memo[id] = start + seconds
    return memo[id]
  end
  function finish(unit, slice, mb)
    local id = key(unit, slice, mb)
    if memo[id] then return memo[id] end
    local at, start = position[id], 0
    if at.k > 1 then
      local before = orders[at.rank][at.k - 1]
      start = release(before[1], (before[3] - 1) * p.stages + at.rank, before[2])
    end
    local input, receive = 0, 0
    if unit == "F" and slice > 1 then input, receive = arrive("F", slice - 1, mb), p.send_forward[slice - 1] end
    if unit == "B" and slice == slices then
      input = finish("F", slice, mb)
    elseif unit == "B" then
      input, receive = arrive("B", slice + 1, mb), p.send_backward[slice]
    end
    if not p.blocking_receives then receive = 0 end
    if unit == "W" then input = finish("B", slice, mb) end
    local seconds = unit == "F" and p.forward[slice] or unit == "B" and p.backward[slice] or p.weight[slice]
    memo[id] = math.max(start, input) + receive + seconds
    return memo[id]
  end
  local makespan = 0
  for rank = 1, p.stages do
    for _, unit in ipairs(orders[rank]) do
      local slice = (unit[3] - 1) * p.stages + rank
      makespan = math.max(makespan, release(unit[1], slice, unit[2]))
      if unit[1] == "F" and slice < slices then makespan = math.max(makespan, arrive("F", slice, unit[2])) end
      if unit[1] == "B" and slice > 1 then makespan = math.max(makespan, arrive("B", slice, unit[2])) end
    end
  end
  return makespan
end

local function random_pipeline(random, name, sends)
  local p = { schedule = name, stages = 1 + math.floor(random() * 5), chunks = 1,
    blocking_sends = random() < 0.6 }
  p.blocking_receives = p.blocking_sends and random() < 0.5
  p.micro_batches = 1 + math.floor(random() * 7)
  if name == "interleaved" then
    p.chunks = 1 + math.floor(random() * 3)
    p.micro_batches = p.stages * (1 + math.floor(random() * 3)) + math.floor(random() * 3) -- any number
    p.group = require("ett.plan.schedules").interleave_group(p.stages, p.micro_batches)
  end
  local slices = p.stages * p.chunks
  p.forward, p.backward = filled(slices, random), filled(slices, random)
  p.send_forward = filled(slices, sends and function() return random() / 3 end or 0)
  p.send_backward = filled(slices, sends and function() return random() / 3 end or 0)
  return p
end

local names = { "gpipe", "1f1b", "interleaved" }

describe("pipeline", function()
  it("engine equals the longest path, for random times, sends and shapes", function()
    local random = generator(1)
    for trial = 1, 120 do
      local p = random_pipeline(random, names[trial % 3 + 1], true)
      local run = step_core.pipeline(p)
      near(oracle(p, run.units), run.makespan_seconds, ("trial %d (%s)"):format(trial, p.schedule))
    end
  end)

  it("gpipe's closed form is exact", function()
    local random = generator(2)
    for trial = 1, 100 do
      local p = random_pipeline(random, "gpipe", true)
      local run = step_core.every_unit(p)
      p.closed = true
      local closed = step_core.pipeline(p)
      near(run.makespan_seconds, closed.makespan_seconds, "trial " .. trial)
      for s = 1, p.stages do
        near(run.last_backward_end_seconds[s], closed.last_backward_end_seconds[s], "end of stage " .. s)
        near(run.busy_seconds[s], closed.busy_seconds[s], "busy of stage " .. s)
        near(run.end_seconds[s], closed.end_seconds[s], "last send of stage " .. s)
      end
    end
  end)

  it("1f1b's fast path gives the engine's digits", function()
    local random = generator(9)
    for trial = 1, 200 do
      local p = random_pipeline(random, "1f1b", trial % 4 > 0)
      local run, short = step_core.every_unit(p), step_core.pipeline(p)
      for _, name in ipairs { "makespan_seconds", "end_seconds", "last_backward_start_seconds",
        "last_backward_end_seconds" } do
        assert.same(run[name], short[name], name)
      end
      for s = 1, p.stages do near(run.busy_seconds[s], short.busy_seconds[s], "busy") end
    end
  end)

  it("a long step, whose steady state is multiplied, equals the one that runs every unit", function()
    local random = generator(11)
    for trial = 1, 60 do
      local p = random_pipeline(random, names[2 + trial % 2], trial % 3 > 0)
      p.micro_batches = p.stages * (20 + math.floor(random() * 60)) + (p.chunks > 1 and 0 or math.floor(random() * 5))
      p.group = p.stages
      if trial % 5 == 0 then
        p.forward_hidden, p.backward_hidden = filled(#p.forward, 0), filled(#p.forward, 0)
        for v = 1, #p.forward do
          p.forward_hidden[v] = math.min(p.forward[v], p.backward[v]) / 3
          p.backward_hidden[v] = p.forward_hidden[v] / 2
        end
      end
      local run, folded = step_core.every_unit(p), step_core.pipeline(p)
      near(run.makespan_seconds, folded.makespan_seconds, "makespan of trial " .. trial)
      for _, name in ipairs { "end_seconds", "last_backward_start_seconds", "last_backward_end_seconds",
        "busy_seconds" } do
        for i = 1, #run[name] do near(run[name][i], folded[name][i], name) end
      end
      -- In a custom order the forward of a pair is whole before its backward ends (pipeline.h).
      for i, peak in ipairs(folded.peak_in_flight) do
        assert.equal(peak + (p.forward_hidden and 1 or 0), run.peak_in_flight[i])
      end
    end
  end)

  it("stays between the closed forms' bounds", function()
    local random = generator(3)
    for trial = 1, 150 do
      local p = random_pipeline(random, names[trial % 3 + 1], true)
      local run = step_core.pipeline(p)
      assert.is_true(run.makespan_seconds >= run.lower_seconds - 1e-12, "below the lower bound")
      assert.is_true(run.makespan_seconds <= run.upper_seconds + 1e-12, "above the upper bound")
    end
  end)

  it("uniform stages: gpipe and 1f1b take (m + p - 1)(f + b), bubble (p - 1)/(m + p - 1)", function()
    for _, stages in ipairs { 1, 2, 4, 8 } do
      for _, m in ipairs { 1, 3, 8, 32 } do
        for _, name in ipairs { "gpipe", "1f1b" } do
          local run = step_core.pipeline { schedule = name, stages = stages, micro_batches = m,
            forward = filled(stages, 1.5), backward = filled(stages, 2.5) }
          near((m + stages - 1) * 4.0, run.makespan_seconds, name)
          near(run.lower_seconds, run.upper_seconds, "closed forms")
          near((stages - 1) / (m + stages - 1), 1 - run.busy_seconds[1] / run.makespan_seconds, "bubble")
        end
      end
    end
  end)

  it("interleaving divides the bubble by the chunks", function()
    for _, stages in ipairs { 2, 4, 8 } do
      for _, chunks in ipairs { 1, 2, 4 } do
        local m = 2 * stages
        local run = step_core.pipeline { schedule = "interleaved", stages = stages, chunks = chunks,
          micro_batches = m, forward = filled(stages * chunks, 1.5 / chunks),
          backward = filled(stages * chunks, 2.5 / chunks) }
        near(m * 4.0 + (stages - 1) * 4.0 / chunks, run.makespan_seconds, "makespan")
        near(run.lower_seconds, run.makespan_seconds, "lower bound")
      end
    end
  end)

  it("keeps the number of micro-batches that each schedule allows", function()
    local four = { stages = 4, micro_batches = 8, forward = filled(4, 1), backward = filled(4, 1) }
    four.schedule = "gpipe"
    assert.same({ 8, 8, 8, 8 }, step_core.pipeline(four).peak_in_flight)
    four.schedule = "1f1b"
    assert.same({ 4, 3, 2, 1 }, step_core.pipeline(four).peak_in_flight)
    -- Megatron: 2 (p - 1 - r) + (v - 1) p + 1 chunks in flight
    local run = step_core.pipeline { schedule = "interleaved", stages = 4, chunks = 2, micro_batches = 8,
      forward = filled(8, 1), backward = filled(8, 1) }
    assert.same({ 11, 9, 7, 5 }, run.peak_in_flight)
  end)

  it("never gets faster when any time grows", function()
    local random = generator(4)
    for trial = 1, 60 do
      local p = random_pipeline(random, names[trial % 3 + 1], true)
      local before = step_core.pipeline(p).makespan_seconds
      local list = p[({ "forward", "backward", "send_forward", "send_backward" })[trial % 4 + 1]]
      local at = 1 + math.floor(random() * #list)
      list[at] = list[at] + 0.5
      assert.is_true(step_core.pipeline(p).makespan_seconds >= before - 1e-12)
    end
  end)

  it("scales with time", function()
    local random = generator(5)
    for trial = 1, 30 do
      local p = random_pipeline(random, names[trial % 3 + 1], true)
      local before = step_core.pipeline(p).makespan_seconds
      for _, list in ipairs { p.forward, p.backward, p.send_forward, p.send_backward } do
        for i = 1, #list do list[i] = list[i] * 8 end
      end
      assert.equal(before * 8, step_core.pipeline(p).makespan_seconds) -- a power of two: exact
    end
  end)

  it("overlapped sends are never slower than blocking ones, and blocking ones never slower than serial ones", function()
    local random = generator(6)
    for trial = 1, 60 do
      local p = random_pipeline(random, names[trial % 3 + 1], true)
      p.blocking_sends, p.blocking_receives = true, true
      local serial = step_core.pipeline(p).makespan_seconds
      p.blocking_receives = false
      assert.is_true(step_core.pipeline(p).makespan_seconds <= serial + 1e-12)
      local blocking = step_core.pipeline(p).makespan_seconds
      p.blocking_sends = false
      assert.is_true(step_core.pipeline(p).makespan_seconds <= blocking + 1e-12)
    end
  end)

  it("runs custom orders as the built-in ones", function()
    local random = generator(7)
    for trial = 1, 40 do
      local p = random_pipeline(random, names[trial % 3 + 1], true)
      local run = step_core.pipeline(p)
      p.schedule, p.orders = "custom", step_core.orders(without_times(run.units))
      assert.equal(run.makespan_seconds, step_core.pipeline(p).makespan_seconds)
      assert.same(run.peak_in_flight, step_core.pipeline(p).peak_in_flight)
    end
  end)

  it("the files of the built-in schedules give the core's orders", function()
    local find = require "ett.base.find"
    local random = generator(10)
    for trial = 1, 60 do
      local p = random_pipeline(random, names[trial % 3 + 1], false)
      local run = step_core.pipeline(p)
      local file = find.load("lua/schedules", p.schedule)
      for stage = 1, p.stages do
        local order = file.order(stage, { pp = p.stages, vp = p.chunks, micro_batches = p.micro_batches,
          interleave_group = p.group })
        assert.same(without_times(run.units)[stage], order)
      end
    end
  end)

  it("starts no unit before its inputs and no two at once on a rank", function()
    local random = generator(8)
    for trial = 1, 40 do
      local p = random_pipeline(random, names[trial % 3 + 1], true)
      local run = step_core.links(p)
      for rank = 1, p.stages do
        local free = 0
        for _, unit in ipairs(run.units[rank]) do
          local slice = (unit[3] - 1) * p.stages + rank
          assert.is_true(unit.start_seconds >= free - 1e-12)
          free = unit.start_seconds + (unit[1] == "F" and p.forward or p.backward)[slice]
        end
      end
    end
  end)

  it("reports the fault of an order", function()
    local p = { schedule = "custom", stages = 2, micro_batches = 1, forward = { 1, 1 }, backward = { 1, 1 } }
    local function why(orders)
      p.orders = step_core.orders(orders)
      local ok, raised = pcall(step_core.pipeline, p)
      assert.is_false(ok)
      return raised.message
    end
    assert.equal('stage 2 lacks unit {"B", 1, 1}',
      why { { { "F", 1 }, { "B", 1 } }, { { "F", 1 } } })
    assert.equal('stage 1: unit 2, {"F", 1, 1}, appears twice',
      why { { { "F", 1 }, { "F", 1 } }, { { "F", 1 }, { "B", 1 } } })
    assert.equal('deadlock in the order: stage 1 cannot start unit 1, {"B", 1, 1}',
      why { { { "B", 1 }, { "F", 1 } }, { { "F", 1 }, { "B", 1 } } })
    p.weight = { 1, 1 }
    assert.equal('stage 2 lacks unit {"W", 1, 1}',
      why { { { "F", 1 }, { "B", 1 }, { "W", 1 } }, { { "F", 1 }, { "B", 1 } } })
    p.weight = nil
    assert.equal('stage 1: unit 2, {"B", 2, 1}, is outside the plan, which has 1 micro-batches and 1 chunks a stage',
      why { { { "F", 1 }, { "B", 2 } }, { { "F", 1 }, { "B", 1 } } })
  end)

  it("splits all layers into slices that differ by at most one layer", function()
    for layers = 1, 40 do
      for slices = 1, 12 do
        local sum, low, high = 0, math.huge, 0
        for _, n in ipairs(step_core.split(layers, slices)) do
          sum, low, high = sum + n, math.min(low, n), math.max(high, n)
        end
        assert.equal(layers, sum)
        assert.is_true(high - low <= 1)
      end
    end
    assert.same({ 6, 7, 7, 6, 6 }, step_core.split(32, 5))
  end)
end)

--- The event engine of resources against a simulator in plain Lua, bounds of every link, and the closed forms.
local link_simulator = require "link_simulator"
local pipeline_simulator = require "pipeline_simulator"
local schedules = require "ett.plan.schedules"
local step_core = require "step_core"
local generator = require("random").integers
local merged = require "ett.base.merged"
local near = require "near"

local function numbers(random, count, scale)
  local list = {}
  for i = 1, count do list[i] = (1 + random(10000)) / 10000 * scale end
  return list
end

--- Random buckets of one size and a smaller rest, as the simulator takes them and as ett does.
local function buckets(random, scale)
  local full, size, rest = random(6), 1 + random(9), 1 + random(8)
  local seconds, last = (1 + random(100)) / 100 * scale, (1 + random(100)) / 200 * scale
  local list = {}
  for i = 1, full do list[i] = { size, seconds } end
  list[full + 1] = { rest, last }
  return list, { size, full, rest, seconds, last }
end

--- Shares of lanes of a transfer: 1 of its outermost lane, or of one inside that it crosses.
local function random_shares(random, lanes, outermost)
  local shares = {}
  for i = 1, lanes do shares[i] = i == outermost and 1 or i < outermost and i > 1 and random(5) / 4 or 0 end
  if outermost > 2 and random(3) == 0 then shares[outermost], shares[outermost - 1] = (1 + random(4)) / 4, 1 end
  return shares
end

--- Random links of a schedule: what the simulator takes, and what ett takes. With two lanes, a transfer has one.
local function random_links(random, s, times)
  local slots, lanes = s.stages * s.chunks, 2 + random(3)
  local l = { lanes = lanes, collective = random_shares(random, lanes, 1 + random(lanes)),
    reduces_every = random(3) == 0, share = random(2) == 0 and 0 or random(40) / 100, send_lane = {} }
  for i = 1, lanes do
    for _, pass in ipairs { "forward", "backward" } do
      local name = pass .. "_lane" .. i
      if random(2) == 0 then
        l[name] = {}
        for v = 1, slots do l[name][v] = times[pass][v] * random(100) / 100 end
      end
    end
    l["send_lane" .. i] = random_shares(random, lanes, i)
  end
  for v = 1, slots do l.send_lane[v] = 1 + random(lanes) end
  if random(2) == 0 then l.gather = numbers(random, slots, 2) end
  local own = merged(l)
  if random(4) > 0 then
    local experts = random(3) == 0
    l.buckets, own.dense, own.expert = {}, {}, experts and {} or nil
    for v = 1, slots do
      local list, five = buckets(random, 0.3)
      l.buckets[v] = { list }
      table.move(five, 1, 5, #own.dense + 1, own.dense)
      if experts then
        list, five = buckets(random, 0.3)
        l.buckets[v][2] = list
        table.move(five, 1, 5, #own.expert + 1, own.expert)
      end
    end
  end
  return l, own
end

--- Hand-overs inside a stage take no time.
local function without_own(s, times)
  for stage = 1, s.stages do
    for chunk = 1, s.chunks do
      local slot = (chunk - 1) * s.stages + stage
      if link_simulator.next_stage(s, stage, chunk) == stage then
        times.send_forward[slot], times.send_backward[slot] = 0, 0
      end
    end
  end
end

--- A random schedule on random links: what both say of its ends.
local function compare(random, name, keep_units)
  local plan = pipeline_simulator.random_plan(name, random)
  plan.micro_batches = math.min(plan.micro_batches, 12)
  if name == "interleaved" then plan.micro_batches = math.max(plan.micro_batches, plan.pp) end
  local file = require("ett.base.find").load("lua/schedules", name)
  if file.refuse and file.refuse(plan) then return end
  local s = pipeline_simulator.schedule(name, plan)
  local times = pipeline_simulator.random_times(s, random)
  without_own(s, times)
  times.start = random(2) == 0 and numbers(random, s.stages, 1) or nil
  if schedules.built_in[name] then times.forward_hidden, times.backward_hidden = nil, nil end
  local l, own = random_links(random, s, times)
  local ends, reduced = link_simulator.run(s, times, l)
  local given = pipeline_simulator.given(s, times, plan)
  for field, value in pairs(own) do given[field] = value end
  given.keep_units = keep_units
  local run = step_core.links(given)
  local worst = 0
  for stage = 1, s.stages do
    worst = math.max(worst, math.abs(ends[stage] - run.end_seconds[stage]),
      math.abs(reduced[stage] - run.reduced_seconds[stage]))
  end
  return worst, run, given
end

describe("a pipeline on its links", function()
  it("equals a simulator that computes every rate anew, all schedules, random links", function()
    local random, names = generator(1), schedules.names()
    local compared, in_order = 0, 0
    for trial = 1, 4 * #names do
      local name = names[trial % #names + 1]
      local worst, run = compare(random, name, trial % 4 == 0)
      if worst then
        compared, in_order = compared + 1, in_order + (run.in_order and 1 or 0)
        assert.is_true(worst <= 1e-9 * run.makespan_seconds, ("trial %d, %s: %g of %g s"):format(trial, name, worst,
          run.makespan_seconds))
      end
    end
    -- Both engines: event by event, and in the order of a tape.
    assert.is_true(in_order > 10 and compared - in_order > 10, in_order .. " of " .. compared)
  end)

  it("repeats a steady state as if it ran every unit", function()
    local random, ways = generator(2), {}
    for trial = 1, 40 do
      local plan = { pp = 1 + random(4), vp = 1, micro_batches = 60 + random(60) }
      local name = trial % 2 == 0 and "1f1b" or "interleaved"
      if name == "interleaved" then plan.pp, plan.vp = 2 + random(3), 2 + random(2) end
      local s = pipeline_simulator.schedule(name, plan)
      local times = pipeline_simulator.random_times(s, random)
      times.forward_hidden, times.backward_hidden = nil, nil
      local _, own = random_links(random, s, times)
      local given = pipeline_simulator.given(s, times, plan)
      for field, value in pairs(own) do given[field] = value end
      local short = step_core.links(given)
      given.keep_units = true
      local whole = step_core.links(given)
      ways[short.in_order] = true
      for _, field in ipairs { "end_seconds", "reduced_seconds", "gather_wait_seconds", "last_backward_end_seconds",
        "busy_seconds" } do
        for i = 1, #whole[field] do near(whole[field][i], short[field][i], ("trial %d, %s"):format(trial, field)) end
      end
    end
    assert.same({ [true] = true, [false] = true }, ways)
  end)

  it("equals the pipeline's own engine if no link is shared", function()
    local random = generator(3)
    for trial = 1, 100 do
      local name = ({ "gpipe", "1f1b", "interleaved" })[trial % 3 + 1]
      local plan = pipeline_simulator.random_plan(name, random)
      local s = pipeline_simulator.schedule(name, plan)
      local times = pipeline_simulator.random_times(s, random)
      times.blocking_sends, times.forward_hidden, times.backward_hidden = true, nil, nil
      local given = pipeline_simulator.given(s, times, plan)
      local closed = step_core.pipeline(given)
      for _, keep_units in ipairs { false, true } do
        given.keep_units = keep_units
        local run = step_core.links(given)
        for _, field in ipairs { "end_seconds", "last_backward_start_seconds", "last_backward_end_seconds" } do
          for i = 1, #run[field] do near(closed[field][i], run[field][i], name .. " " .. field) end
        end
      end
    end
  end)

  it("reports an order with a deadlock", function()
    local ok, raised = pcall(step_core.links, { schedule = "custom", stages = 2, micro_batches = 1, forward = { 1, 1 },
      backward = { 1, 1 }, share = 0.1,
      orders = step_core.orders { { { "B", 1 }, { "F", 1 } }, { { "F", 1 }, { "B", 1 } } } })
    assert.is_false(ok)
    assert.equal('deadlock in the order: stage 1 cannot start {"B", 1, 1}', raised.message)
  end)
end)

--- A step of a program by hand; seconds: of each kind of message, a number or a function of its bytes.
local function evaluate(given, kinds, operations, seconds)
  local program <close> = step_core.program { operations = operations, kinds = kinds, boundary_bytes = 1,
    recompute_layers = given.recompute_layers, recompute_method = given.recompute_method }
  given.seq, given.clip_gradients = 1, false
  local plan = step_core.plan(given)
  local function seconds_of(d)
    local own = seconds[d.kind]
    return type(own) == "function" and own(d.bytes) or own
  end
  return step_core.evaluated(program, plan, seconds_of), step_core.evaluated(program, plan, seconds_of, true)
end

describe("a step on its links", function()
  local layer = { { place = "middle", count = 4, uses = { 1 } } }

  it("carries none of the messages that recomputation leaves out", function()
    local kinds = { { place = "middle", count = 4, uses = { 1, 1 } } }
    local function step(recompute, backward)
      return evaluate({ dp = 2, micro_batches = 1, overlap_gradients = true, bucket_bytes = 2000,
        recompute = recompute }, kinds, { { forward = { 1 }, backward = { backward }, dense_parameters = 1000 },
        { kind = "collective", forward = { 4 }, lanes = "network", never_again = true } },
        { all_reduce = function(bytes) return bytes / 1000 end }).step_seconds
    end
    -- The backward pass of 3 s a layer, of which 1 s is repeated, has the links for the gradients alone.
    assert.equal(step("none", 3), step("full", 2))
  end)

  it("carries the last messages of layers whose output the next layer of a group needs", function()
    local message = { kind = "collective", forward = { 4 }, lanes = "network" }
    local operations = { { forward = { 1 }, backward = { 2 }, dense_parameters = 1000 }, message,
      merged(message, { never_again = true }) }
    local function step(kinds, layers)
      return evaluate({ dp = 2, micro_batches = 1, overlap_gradients = true, bucket_bytes = 2000, recompute = "full",
        recompute_layers = layers, recompute_method = layers and "uniform" }, kinds, operations,
        { all_reduce = function(bytes) return bytes / 1000 end }).step_seconds
    end
    local alike = { { place = "middle", count = 4, uses = { 1, 0, 1 } } }
    local function layers(whole) -- those that send their last message again, and the others
      return { { place = "middle", count = whole, uses = { 1, 1, 0 } },
        { place = "middle", count = 4 - whole, uses = { 1, 0, 1 } } }
    end
    assert.equal(step(layers(3)), step(alike, 4))
    assert.equal(step(layers(2)), step(alike, 2))
    assert.equal(step(alike), step(alike, 1))
    assert.is_true(step(alike, 2) < step(alike, 4))
  end)

  it("has closed forms equal to the event engine if each link carries one kind of transfer", function()
    local random, reductions = generator(4), 0
    for _ = 1, 150 do
      local pp = 1 + random(3)
      local given = { pp = pp, dp = 2, micro_batches = 1 + random(6), overlap_gradients = random(3) > 0,
        overlap_sends = pp == 2 and random(2) == 0, bucket_bytes = 500 + 100 * random(30) }
      local rate = (1 + random(40)) / 4000
      local closed, events = evaluate(given, layer,
        { { forward = { 1 + random(5) }, backward = { 1 + random(9) }, dense_parameters = 1000 } },
        { all_reduce = function(bytes) return rate * bytes end,
          send_recv = not given.overlap_gradients and random(10) / 20 or 0 })
      near(closed.step_seconds, events.step_seconds, "step")
      local ends = {}
      for _, t in ipairs(events.transfers) do
        if t.kind == "reduce" then
          reductions = reductions + 1
          ends[t.stage] = math.max(ends[t.stage] or 0, t.start_seconds + t.seconds)
        end
      end
      for stage, s in ipairs(closed.stages) do
        local reduced = s.pipeline_seconds + s.gradient_exposed_seconds
        if given.overlap_gradients then near(reduced, ends[stage], "reductions of stage " .. stage) end
      end
    end
    assert.is_true(reductions > 100)
  end)

  it("hides the gradients of experts as those of other weights", function()
    local both = { { forward = { 4 }, backward = { 8 }, dense_parameters = 1000 },
      { forward = { 1 }, backward = { 2 }, expert_parameters = 4000 } }
    local e = evaluate({ dp = 2, micro_batches = 1, overlap_gradients = true, bucket_bytes = 1000 },
      { { place = "middle", count = 4, uses = { 1, 1 } } }, both,
      { all_reduce = function(bytes) return bytes / 4000 end })
    -- 20,000 weights of 4 bytes, 20 s of the 40 of the backward pass: all but the last bucket of each kind hides.
    near(4 * 15 + 0.25 + 0.25, e.step_seconds)
    near(0.5, e.stages[1].gradient_exposed_seconds)
    near(20, e.stages[1].gradient_seconds)
  end)

  it("gathers weights while later stages wait for their first input", function()
    local pass, gather = 8, 11 -- of a stage's forward
    local e = evaluate({ pp = 2, dp = 2, zero = 1, micro_batches = 4, overlap_parameters = true }, layer,
      { { forward = { pass / 2 }, backward = { pass }, dense_parameters = 1000 } }, { all_gather = gather })
    near(gather - pass, e.stages[1].gather_exposed_seconds, "first stage")
    near(0, e.stages[2].gather_exposed_seconds, "second stage")
    near((4 + 1) * 3 * pass + gather - pass, e.step_seconds)
  end)

  it("sends both ways through one card", function()
    local send, m = 5, 20
    local e = evaluate({ pp = 3, micro_batches = m, overlap_sends = true },
      { { place = "middle", count = 3, uses = { 1 } } }, { { forward = { 1 }, backward = { 2 } } },
      { send_recv = send })
    assert.is_true(e.step_seconds >= 2 * m * send, ("%g s"):format(e.step_seconds))
  end)

  it("reduces in a rack beside sends that the spine throttles", function()
    -- A rack is two nodes of one device. Both send through a quarter of their cards: 4:1 above the rack.
    local given = { pp = 2, dp = 2, micro_batches = 1, overlap_sends = true, overlap_gradients = true,
      bucket_bytes = 1e9, gpus_per_node = 1, tiers = { 1, 1, 2, 1, math.maxinteger, 1 },
      rates = { 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0.5, 1, 0.5, 1 } }
    local kinds = { { place = "middle", count = 2, uses = { 1 } }, { place = "last", count = 1, uses = { [2] = 1 } } }
    local operations = { { forward = { 4 }, backward = { 8 }, dense_parameters = 1000 }, { dense_parameters = 4000 } }
    local e, events = evaluate(given, kinds, operations, { send_recv = 8,
      all_reduce = function(bytes) return 1.5e-3 * bytes end })
    -- Stage 2 ends at 4 + 8 + 4 + 8 = 24. Its gradients (30 s) run at 3/4 for the 8 s of its send, then alone.
    near(8 + (30 - 8 * 3 / 4), e.stages[2].gradient_exposed_seconds)
    near(24 + 32, e.step_seconds)
    local lanes = {}
    for _, t in ipairs(events.transfers) do lanes[t.kind] = t.lane end
    assert.same({ forward = 3, backward = 3, reduce = 2 }, lanes)
    -- Where the rates of tiers are unknown, all of this is one network, and reductions wait for the send.
    given.rates = nil
    near(24 + 8 + 30, evaluate(given, kinds, operations, { send_recv = 8,
      all_reduce = function(bytes) return 1.5e-3 * bytes end }).step_seconds)
  end)

  it("reduces in the bubbles if the link was busy before", function()
    -- ZeRO-2 reduces after every micro-batch: 4 layers' gradients take as long as a forward and a backward.
    local given = { pp = 2, dp = 2, zero = 2, micro_batches = 6, overlap_gradients = true }
    local e, events = evaluate(given, layer, { { forward = { 1 }, backward = { 2 }, dense_parameters = 1000 } },
      { reduce_scatter = 7 })
    for stage, s in ipairs(e.stages) do
      local all = 0
      for _, t in ipairs(events.transfers) do
        if t.kind == "reduce" and t.stage == stage then all = all + t.seconds end
      end
      near(6 * 7, all, "reductions of stage " .. stage)
      near(6 * 7, s.gradient_seconds)
      assert.is_true(s.gradient_exposed_seconds < 6 * 7 - 6 * 2)
      -- The first gradients exist at the end of the first backward; from then on the link is busy.
      near(({ 2 + 2 + 4 + 4, 2 + 2 + 4 })[stage] + 6 * 7, s.pipeline_seconds + s.gradient_exposed_seconds)
    end
  end)
end)

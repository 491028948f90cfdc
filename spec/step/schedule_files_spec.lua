--- The bundled schedules against an independent simulator, and against the bubbles that their papers state.
local schedules = require "ett.plan.schedules"
local simulator = require "pipeline_simulator"
local step_core = require "ett.step"
local generator = require("random").integers
local raised = require "raised"

describe("the bundled schedules", function()
  it("match the independent simulator, with random times, placements and messages", function()
    local random, names = generator(3), schedules.names()
    for trial = 1, 130 do -- spec/bench/pipelines.lua runs 300
      local name = names[trial % #names + 1]
      local plan = simulator.random_plan(name, random)
      local s = simulator.schedule(name, plan)
      local times = simulator.random_times(s, random)
      if schedules.built_in[name] then times.forward_hidden, times.backward_hidden = nil, nil end
      local makespan, ends, busy = simulator.run(s, times)
      local given = simulator.given(s, times, plan)
      for _, keep in ipairs { false, true } do
        given.keep_units = keep
        local run = step_core.pipeline(given)
        local what = ("trial %d: %s pp=%d vp=%d micro_batches=%d"):format(trial, name, plan.pp, plan.vp,
          plan.micro_batches)
        assert.is_true(math.abs(run.makespan_seconds - makespan) <= 1e-9 * makespan, what)
        for stage = 1, plan.pp do
          assert.is_true(math.abs(run.end_seconds[stage] - ends[stage]) <= 1e-9 * makespan, what)
          assert.is_true(math.abs(run.busy_seconds[stage] - busy[stage]) <= 1e-9 * makespan, what)
        end
        assert.is_true(run.makespan_seconds >= run.lower_seconds * (1 - 1e-12), what)
      end
    end
  end)

  it("without an order get one within their declared activations, at least as fast as ZB-H1 and H2", function()
    local random, shorter = generator(9), 0
    for trial = 1, 40 do
      local name = trial % 2 == 0 and "zb_1p" or "zb_2p"
      local plan = { pp = 1 + random(6), vp = 1, micro_batches = 1 + random(30) }
      local s = simulator.schedule(name, plan)
      local times = simulator.random_times(s, random)
      local run = simulator.planned(simulator.schedule(name, plan), times)
      local makespan = simulator.run(s, times) -- it has each unit once, and each input
      assert.is_true(math.abs(run.makespan_seconds - makespan) <= 1e-9 * makespan)
      for stage = 1, plan.pp do
        local held, most, units = 0, 0, 0
        for _, unit in ipairs(s.orders[stage]) do
          held, units = held + (unit[1] == "F" and 1 or unit[1] == "W" and -1 or 0), units + 1
          most = math.max(most, held)
        end
        assert.equal(3 * plan.micro_batches, units)
        assert.is_true(most <= s.file.activations(stage, plan))
      end
      for _, other in ipairs(name == "zb_1p" and { "zb_h1" } or { "zb_h1", "zb_h2" }) do
        local longer = simulator.run(simulator.schedule(other, plan), times)
        assert.is_true(makespan <= longer * (1 + 1e-9), ("trial %d: %s %g, %s %g"):format(trial, name, makespan, other,
          longer))
        shorter = shorter + (makespan < longer * 0.99 and 1 or 0)
      end
    end
    assert.is_true(shorter > 20, shorter)
  end)

  it("without an order are refused where the core cannot make one", function()
    local two = { schedule = "zb_1p", pp = 2, vp = 1, micro_batches = 3 }
    local function why(given, orders)
      local full = { schedule = "custom", stages = 2, chunks = 1, micro_batches = 3, group = 1, blocking_sends = true,
        blocking_receives = false, keep_units = false, forward = { 1, 1 }, backward = { 1, 1 }, weight = { 1, 1 },
        orders = orders or schedules.orders(two) }
      for name, value in pairs(given) do full[name] = value or nil end
      return raised(step_core.pipeline, full)
    end
    assert.matches("needs weight seconds", why { weight = false }, 1, true)
    assert.matches("the orders hold 2 stages of 1 chunks, the plan 3 of 1", why { stages = 3, forward = { 1, 1, 1 },
      backward = { 1, 1, 1 }, weight = { 1, 1, 1 } }, 1, true)
    local none = step_core.orders({ {}, {} }, { chunks = 1, ways = 1, slice = { 1, 2 }, planned = 3 })
    assert.matches("declared activations", why({}, none), 1, true)
    local zero = step_core.orders({ {}, {} }, { chunks = 1, ways = 1, slice = { 1, 2 }, most = { 2, 0 }, planned = 3 })
    assert.matches("stage 2: the schedule declares activations of 0 forwards", why({}, zero), 1, true)
  end)

  it("have the bubbles of their papers at equal units", function()
    local function engine(given)
      local run = step_core.pipeline(given)
      return run.makespan_seconds, run.end_seconds
    end
    for _, entry in ipairs(simulator.papers) do
      for _, p in ipairs { 2, 4, 8 } do
        local paper, own = simulator.bubbles(entry, p, engine)
        assert.equal(paper, own, ("%s on %d stages (%s)"):format(entry.name, p, entry.source))
      end
    end
  end)

  it("are at least as fast as 1F1B if they run in waves", function()
    for _, pp in ipairs { 2, 4, 8 } do
      for _, vp in ipairs { 2, 4 } do
        for _, m in ipairs { pp, 2 * pp, 4 * pp } do
          local plan = { pp = pp, vp = vp, micro_batches = m }
          local s, ones, twos, zeros = simulator.schedule("hanayo", plan), {}, {}, {}
          for i = 1, pp * vp do ones[i], twos[i], zeros[i] = 1, 2, 0 end
          local run = step_core.pipeline(simulator.given(s, { forward = ones, backward = twos, weight = zeros,
            send_forward = zeros, send_backward = zeros, blocking_sends = true, blocking_receives = false }, plan))
          local what = ("pp=%d vp=%d micro_batches=%d"):format(pp, vp, m)
          assert.is_true(run.makespan_seconds <= 3 * vp * (m + pp - 1), what)
        end
      end
    end
  end)

  it("keep the activations that they declare, and no fewer than the papers need", function()
    local function peak(name, pp, vp, m)
      local s = simulator.schedule(name, { pp = pp, vp = vp, micro_batches = m })
      local ones = {}
      for i = 1, s.stages * s.chunks do ones[i] = 1 end
      local given = simulator.given(s, { forward = ones, backward = ones, weight = ones, blocking_sends = true,
        blocking_receives = false }, { pp = pp, vp = vp, micro_batches = m })
      return step_core.pipeline(given).peak_in_flight
    end
    assert.same({ 4, 4, 4, 4 }, peak("zb_h1", 4, 1, 16))
    assert.same({ 7, 7, 7, 7 }, peak("zb_h2", 4, 1, 16))
    assert.same({ 8, 8, 8, 8 }, peak("zb_v", 4, 2, 16))
    assert.same({ 3, 4, 4, 3 }, peak("chimera", 4, 1, 16)) -- Li and Hoefler, table 2: D/2 + 1 to D
    assert.same({ 5, 5, 5, 5 }, peak("dualpipe", 4, 1, 16)) -- DeepSeek-V3, table 2: PP + 1
    assert.same({ 5, 5 }, peak("dualpipe_v", 2, 2, 16))
    assert.same({ 32, 32 }, peak("breadth_first", 2, 2, 16))
  end)

  it("reduce both copies of a stage inside a node, if the node holds both", function()
    local ett = require "ett"
    local model = ett.model.new("gpt", { layers = 16, hidden = 4096, heads = 32, vocab = 32000 })
    local function reduction(plan)
      plan.pp, plan.dp, plan.seq, plan.micro_batches = 4, 8, 2048, 16
      local seconds = 0
      for _, line in ipairs(ett.estimate { model = model, cluster = "dgx_h100", plan = plan }.collectives) do
        if line.group == "dp" then seconds = seconds + line.seconds end
      end
      return seconds
    end
    for _, schedule in ipairs { "chimera", "dualpipe" } do
      local inside = reduction { schedule = schedule, rank_order = "tp-cp-ep-pp-dp" }
      -- Twice the weights of 1f1b on twice the network cards of a node; a ring of 16 ranks instead of 8.
      local once = reduction { schedule = "1f1b", rank_order = "tp-cp-ep-pp-dp" }
      assert.near((15 / 16) / (7 / 8), inside / once, 0.05, schedule)
    end
  end)

  it("reduce over both stages of a slice on a torus, also without replicas", function()
    local ett = require "ett"
    local model = ett.model.new("gpt", { layers = 16, hidden = 4096, heads = 32, vocab = 64 })
    local function reduction(plan)
      plan.seq, plan.global_batch, plan.pp, plan.overlap_gradients = 2048, 64, 2, false
      for _, line in ipairs(ett.estimate { model = model, cluster = "tpu_v4", plan = plan }.collectives) do
        if line.group == "dp" then return line.seconds end
      end
    end
    local two, four = reduction { dp = 2, schedule = "1f1b" }, reduction { dp = 4, schedule = "1f1b" }
    for _, schedule in ipairs { "chimera", "dualpipe" } do -- twice the weights, and twice the ranks
      assert.near(2, reduction { schedule = schedule } / two, 0.01)
      assert.near(2, reduction { schedule = schedule, dp = 2 } / four, 0.01)
    end
  end)

  it("name their source", function()
    for _, name in ipairs(schedules.names()) do
      assert.is_string(require("ett.base.find").load("lua/schedules", name).source, name)
    end
  end)
end)

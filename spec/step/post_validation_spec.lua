--- Steps whose stages do not wait for one another's end: the time between two of them, against a simulator that runs
--- many steps one after the other.
local schedules = require "ett.plan.schedules"
local simulator = require "pipeline_simulator"
local step_core = require "step_core"

--- A step of layers that take 1 s forward and 2 s backward, half of it weight gradients.
local function evaluate(given, send)
  local program <close> = step_core.program {
    operations = { { forward = { 1 }, backward = { 2 }, dense_parameters = 1, weight_share = 0.5 } },
    kinds = { { place = "middle", count = given.layers, uses = { 1 } } }, boundary_bytes = 1 }
  local plan = step_core.plan(given)
  plan.orders = schedules.orders(given)
  if plan.orders then plan.schedule = "custom" end
  return step_core.evaluated(program, plan, function(d) return d.kind == "send_recv" and send or 0 end)
end

describe("post-validation", function()
  it("shortens no gpipe: its first stage lasts from the first forward to the last backward pass", function()
    local given = { schedule = "gpipe", pp = 4, vp = 1, micro_batches = 6, seq = 1, layers = 4, split = { 1, 1, 1, 1 } }
    local plain = evaluate(given, 0.25).step_seconds
    given.post_validation = true
    assert.near(plain, evaluate(given, 0.25).step_seconds, 1e-9)
  end)

  it("gives the time between steps of a long run", function()
    local draw = require("random_plans").generator(8)
    for trial = 1, 24 do
      local given = { schedule = draw { "zb_h1", "zb_h2", "zb_v", "chimera", "hanayo" }, pp = draw { 2, 4 },
        micro_batches = draw { 4, 7, 12 }, post_validation = true, seq = 1 }
      given.vp = (given.schedule == "zb_v" or given.schedule == "hanayo") and 2 or 1
      local slices, send = given.pp * given.vp, draw { 0, 0.125, 0.5 }
      given.split, given.layers = {}, 0
      for v = 1, slices do
        given.split[v] = draw { 1, 2, 3 }
        given.layers = given.layers + given.split[v]
      end
      local s = simulator.schedule(given.schedule, given)
      local times = { forward = {}, backward = {}, weight = {}, send_forward = {}, send_backward = {},
        blocking_sends = true }
      for stage = 1, s.stages do
        for chunk = 1, s.chunks do
          local at, slice = simulator.slot(s, stage, chunk), s.slice[stage][chunk]
          local next_stage
          for other = 1, s.stages do
            local way = (chunk - 1) // given.vp * given.vp
            for c = way + 1, way + given.vp do
              if s.slice[other][c] == slice + 1 then next_stage = other end
            end
          end
          local n = given.split[slice]
          local message = next_stage and next_stage ~= stage and send or 0
          times.forward[at], times.weight[at], times.backward[at] = n, n, s.split and n or 2 * n
          times.send_forward[at], times.send_backward[at] = message, message
        end
      end
      local _, ends = simulator.run(s, times)
      local first
      for step = 1, 32 do
        if step == 16 then first = ends[1] end
        times.start = ends
        _, ends = simulator.run(s, times)
      end
      local period, own = (ends[1] - first) / 17, evaluate(given, send)
      local what = ("trial %d: %s pp=%d micro_batches=%d"):format(trial, given.schedule, given.pp, given.micro_batches)
      assert.is_true(math.abs(own.step_seconds - period) <= 1e-9 * period,
        ("%s: wanted %.17g, got %.17g"):format(what, period, own.step_seconds))
      given.post_validation = false
      assert.is_true(own.step_seconds <= evaluate(given, send).step_seconds * (1 + 1e-12), what)
    end
  end)

  it("removes the bubble of zb_h2 but not of 1f1b", function()
    local given = { schedule = "zb_h2", pp = 4, vp = 1, micro_batches = 16, layers = 4, seq = 1,
      post_validation = true }
    local steady = evaluate(given, 0)
    assert.equal(16 * 3, steady.step_seconds)
    assert.equal(0, steady.bubble_fraction)
    given.post_validation = false
    assert.equal(16 * 3 + 3, evaluate(given, 0).step_seconds)
    given.schedule = "1f1b"
    local one = evaluate(given, 0).step_seconds
    given.post_validation = true
    assert.equal(one, evaluate(given, 0).step_seconds)
  end)
end)

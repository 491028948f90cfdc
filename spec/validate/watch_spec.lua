--- What counts as undisturbed in `ett validate`, and that cases are trained in turn.
if not require("needs").cpu("ett.validate.watch", _ENV) then return end
local watch_module = require "ett.validate.watch"

local function entry(cost, foreign) return { cost = cost, foreign = foreign } end

describe("ett.validate.watch", function()
  it("counts undisturbed steps", function()
    local list = { entry(9.0, 0.5), entry(1.0, 0.0), entry(3.0, 0.01), entry(2.0, 0.0), entry(8.0, 0.021) }
    local chosen = watch_module.choose(list, 2)
    assert.equal(2.0, chosen.cost)
    assert.equal(3, #chosen.chosen)
    assert.equal(3, chosen.quiet)
    assert.equal(3, watch_module.quiet(list))
    assert.is_true(chosen.foreign < watch_module.foreign)
    assert.is_true(watch_module.is_quiet(list[3]))
    assert.is_false(watch_module.is_quiet(list[5]))
  end)

  it("uses the least disturbed steps if too few were undisturbed, and reports the disturbance", function()
    local chosen = watch_module.choose({ entry(9.0, 0.9), entry(5.0, 0.3), entry(4.0, 0.2) }, 2)
    assert.equal(4.5, chosen.cost)
    assert.equal(2, #chosen.chosen)
    assert.equal(0, chosen.quiet)
    assert.is_true(math.abs(chosen.foreign - 0.25) < 1e-12)
  end)

  it("takes the mean of the middle half", function()
    assert.equal(5.0, watch_module.middle { 5.0 })
    assert.equal(2.0, watch_module.middle { 3.0, 1.0, 2.0 })
    assert.equal(2.5, watch_module.middle { 100.0, 1.0, 2.0, 3.0 })
    assert.equal(4.0, watch_module.middle { 1.0, 1.0, 2.0, 3.0, 5.0, 6.0, 9.0, 9.0 })
  end)

  it("measures the time that another program used", function()
    local watch, sample = watch_module.new(), require "ett.sample"
    local function busy(seconds)
      local stop = sample.now() + seconds
      while sample.now() < stop do end -- luacheck: ignore
    end
    local seen = watch:observe(function() sample.pause(0.02) busy(0.02) end)
    assert.is_true(seen.seconds >= 0.04, tostring(seen.seconds))
    assert.is_true(seen.foreign > 0.3 and seen.foreign < 1, tostring(seen.foreign)) -- asleep: as if another ran
    assert.is_false(watch_module.is_quiet(seen))
    assert.is_true(seen.busy <= seen.seconds - 0.019, tostring(seen.busy)) -- processor time
  end)
end)

describe("ett.validate.cpu.train", function()
  local validate_cpu, validate, model = require "ett.validate.cpu", require "ett.validate", require "ett.validate.model"
  local made
  local small = { 2, 16, 2, 32, 1, 1, 16 }
  local cases = { validate.case(small), validate.case(small) }

  --- Trains both cases under a watch that times nothing; disturbed(n): whether the n-th step is.
  local function trained(steps, disturbed)
    local watch = watch_module.new()
    made = { steps = 0, progress = {} }
    function watch.observe(_, run)
      run()
      made.steps = made.steps + 1
      local n = made.steps
      return { seconds = n, busy = n * 1e-3, foreign = disturbed(n) and 1.0 or 0.0 }
    end
    local both = validate_cpu.train(cases, steps, nil, watch)
    while both:turn() do made.progress[#made.progress + 1] = both:progress() end
    return both:results()
  end

  it("trains cases in turn, and counts steps, not warm-ups", function()
    local results = trained(12, function() return false end)
    -- Two steps a turn, behind one that warms up; the second case's lie between the first's.
    assert.same({ 12, 12 }, { results[1].steps, results[2].steps })
    assert.equal(2 * 6 * 3, made.steps)
    -- Timed: steps 2, 3, 8, 9, 14, 15, 20, 21, 26, 27, 32, 33 of all, and the third after each; the n-th takes n ms of
    -- processors and n s of wall time.
    for i, middle in ipairs { (9 + 14 + 15 + 20 + 21 + 26) / 6, (12 + 17 + 18 + 23 + 24 + 29) / 6 } do
      assert.is_true(math.abs(results[i].step_seconds - middle * 1e-3) < 1e-9, tostring(results[i].step_seconds))
      assert.is_true(math.abs(results[i].wall_seconds - middle) < 1)
    end
    assert.equal(validate_cpu.turns, #made.progress)
    assert.equal(1.0, made.progress[validate_cpu.turns])
    assert.is_false(results[1].disturbed)
    assert.is_true(results[1].last_loss < results[1].first_loss)
  end)

  it("runs no more steps if steps were disturbed, and reports that", function()
    local calm, results = trained(12, function() return false end), trained(12, function() return true end)
    assert.same({ 12, 0, 100.0, true }, { results[2].steps, results[2].undisturbed_steps, results[2].foreign_percent,
      results[2].disturbed })
    assert.equal(calm[2].step_seconds, results[2].step_seconds)
    assert.equal(calm[1].last_loss, results[1].last_loss)
  end)

  it("runs at most three times as many steps of a pipeline if steps were disturbed, and takes wall times", function()
    cases[1].plan.pp, cases[2].plan.pp = 2, 2
    local new = model.new
    finally(function()
      cases[1].plan.pp, cases[2].plan.pp, model.new = 1, 1, new
    end)
    function model.new() -- the spec has one rank: it trains no pipeline, but takes as many steps
      return { order = {}, reset = function() end, step = function() return 1.0 end }
    end
    local results = trained(12, function(n) return n <= 36 end)
    assert.same({ 24, 12 }, { results[1].steps, results[1].undisturbed_steps })
    assert.is_true(results[1].step_seconds > 36, tostring(results[1].step_seconds))
    results = trained(12, function() return true end)
    assert.same({ 36, 0, true }, { results[2].steps, results[2].undisturbed_steps, results[2].disturbed })
  end)

  it("times two steps or more a turn", function()
    assert.equal(4, trained(3, function() return false end)[1].steps)
    assert.equal(2, #made.progress)
    assert.equal(1, trained(1, function() return false end)[1].steps)
  end)
end)

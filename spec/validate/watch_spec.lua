--- What counts as undisturbed in `ett validate`, and that cases are trained in turn.
local usable, why = require("ett.base.find").load("samplers", "cpu").available()
if not usable then
  describe("ett.validate.watch", function()
    it("is left out", function() pending(why) end)
  end)
  return
end
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

  it("sees the time that another program had", function()
    local watch, sample = watch_module.new(), require "ett.sample"
    local function busy(seconds)
      local stop = sample.now() + seconds
      while sample.now() < stop do end -- luacheck: ignore
    end
    local seen = watch:observe(function() sample.pause(0.02) busy(0.02) end)
    assert.is_true(seen.seconds >= 0.04, tostring(seen.seconds))
    assert.is_true(seen.foreign > 0.3 and seen.foreign < 1, tostring(seen.foreign)) -- asleep: as if another ran
    assert.is_false(watch_module.is_quiet(seen))
  end)
end)

describe("ett.validate.cpu.train", function()
  local validate_cpu, validate = require "ett.validate.cpu", require "ett.validate"
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
      return { seconds = n * 1e-3, foreign = disturbed(n) and 1.0 or 0.0 }
    end
    local both = validate_cpu.train(cases, steps, nil, watch)
    while both:turn() do made.progress[#made.progress + 1] = both:progress() end
    return both:results()
  end

  it("trains cases in turn, and counts steps, not warm-ups", function()
    local results = trained(12, function() return false end)
    -- Two steps a turn, behind 3 that warm up, later 1; the second case's lie between the first's.
    assert.same({ 12, 12 }, { results[1].steps, results[2].steps })
    assert.equal(2 * (5 + 5 * 3), made.steps)
    -- Timed: steps 4, 5, 12, 13, 18, 19, 24, 25, 30, 31, 36, 37 of all, and each next two; the n-th takes n ms.
    for i, middle in ipairs { (13 + 18 + 19 + 24 + 25 + 30) / 6e3, (16 + 21 + 22 + 27 + 28 + 33) / 6e3 } do
      assert.is_true(math.abs(results[i].step_seconds - middle) < 1e-9, tostring(results[i].step_seconds))
      assert.is_true(math.abs(results[i].wall_seconds - middle) < 1e-3)
    end
    assert.equal(validate_cpu.turns, #made.progress)
    assert.equal(1.0, made.progress[validate_cpu.turns])
    assert.is_false(results[1].disturbed)
    assert.is_true(results[1].last_loss < results[1].first_loss)
  end)

  it("runs at most three times as many steps if steps were disturbed", function()
    local results = trained(12, function(n) return n <= 40 end)
    assert.same({ 24, 12 }, { results[1].steps, results[1].undisturbed_steps })
    results = trained(12, function() return true end)
    assert.equal(36, results[2].steps)
    assert.equal(0, results[2].undisturbed_steps)
    assert.is_true(results[2].disturbed)
    -- Loss is told at the same step however many follow.
    local loss = results[1].last_loss
    assert.equal(loss, trained(12, function() return false end)[1].last_loss)
  end)

  it("makes each step of a few a turn of its own", function()
    assert.equal(3, trained(3, function() return false end)[1].steps)
    assert.equal(3, #made.progress)
  end)
end)

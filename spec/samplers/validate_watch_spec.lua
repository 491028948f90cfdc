--- What counts as undisturbed in `ett validate`, and that cases are trained in turn.
local usable, why = require("ett.find").load("samplers", "cpu").available()
if not usable then
  describe("ett.validate_watch", function()
    it("is left out", function() pending(why) end)
  end)
  return
end
local validate_watch = require "ett.validate_watch"

--- A watch for which a figure is the ratio to an undisturbed probe, and 1.1 the most that is quiet.
local function plain()
  local watch = validate_watch.new()
  watch.memory = { ratio = function(_, figure) return figure end, limit = function() return 1.1 end }
  return watch
end

local function entry(cost, foreign, memory, way)
  return { cost = cost, foreign = foreign, memory = memory or 1.0, way = way }
end

describe("ett.validate_watch", function()
  it("counts what no other program disturbed", function()
    local watch = plain()
    local list = { entry(9.0, 0.5), entry(1.0, 0.0), entry(3.0, 0.01), entry(2.0, 0.0), entry(8.0, 0.021) }
    local chosen = watch:choose(list, 2)
    assert.equal(2.0, chosen.cost)
    assert.equal(3, #chosen.chosen)
    assert.equal(3, chosen.quiet)
    assert.equal(3, watch:quiet(list))
    assert.is_true(chosen.foreign < validate_watch.foreign)
  end)

  it("counts what ran while the memory was undisturbed", function()
    local watch = plain()
    local list = { entry(9.0, 0.0, 1.3), entry(1.0, 0.0, 1.02), entry(3.0, 0.0, 1.09), entry(8.0, 0.0, 1.11) }
    local chosen = watch:choose(list, 1)
    assert.equal(2.0, chosen.cost)
    assert.equal(2, chosen.quiet)
    assert.is_true(math.abs(chosen.memory - 1.055) < 1e-12)
    assert.is_true(watch:is_quiet(list[3]))
    assert.is_false(watch:is_quiet(list[4]))
  end)

  it("takes the least disturbed where too few were undisturbed, and says how much they were", function()
    local chosen = plain():choose({ entry(9.0, 0.9), entry(5.0, 0.3), entry(4.0, 0.2) }, 2)
    assert.equal(4.5, chosen.cost)
    assert.equal(2, #chosen.chosen)
    assert.equal(0, chosen.quiet)
    assert.is_true(math.abs(chosen.foreign - 0.25) < 1e-12)
    -- Ten times the limit in one respect is more than twice in the other.
    chosen = plain():choose({ entry(7.0, 0.2, 1.0), entry(6.0, 0.0, 1.2) }, 1)
    assert.equal(6.0, chosen.cost)
  end)

  it("counts what ran while messages between ranks went the short way", function()
    local watch = plain()
    watch.way = watch.memory
    local chosen = watch:choose({ entry(9.0, 0.0, 1.0, 2.4), entry(1.0, 0.0, 1.0, 1.0), entry(3.0, 0.0, 1.0, 1.5) }, 1)
    assert.equal(2.0, chosen.cost)
    assert.equal(2, chosen.quiet)
    assert.equal(1.25, chosen.way)
  end)

  it("takes the mean of the middle half", function()
    assert.equal(5.0, validate_watch.middle { 5.0 })
    assert.equal(2.0, validate_watch.middle { 3.0, 1.0, 2.0 })
    assert.equal(2.5, validate_watch.middle { 100.0, 1.0, 2.0, 3.0 })
    assert.equal(4.0, validate_watch.middle { 1.0, 1.0, 2.0, 3.0, 5.0, 6.0, 9.0, 9.0 })
  end)

  it("sees the time that another program had", function()
    local watch, sample = validate_watch.new(), require "ett.sample"
    local function busy(seconds)
      local stop = sample.now() + seconds
      while sample.now() < stop do end -- luacheck: ignore
    end
    local seen = watch:observe(function() sample.pause(0.02) busy(0.02) end)
    assert.is_true(seen.seconds >= 0.04, tostring(seen.seconds))
    assert.is_true(seen.foreign > 0.3 and seen.foreign < 1, tostring(seen.foreign)) -- asleep: as if another ran
    assert.is_false(watch:is_quiet(seen))
    assert.is_true(seen.memory > 0)
    assert.is_nil(seen.way) -- one rank
  end)
end)

describe("ett.validate_ranks", function()
  local ranks, validate = require "ett.validate_ranks", require "ett.validate"
  local new, made = validate_watch.new, nil
  --- Replaces the watch by one that trains without timing; disturbed(n): whether the n-th step is.
  local function replaced(disturbed)
    validate_watch.new = new
    local watch = plain()
    made = { steps = 0, waited = 0 }
    validate_watch.new = function()
      function watch.observe(_, run)
        run()
        made.steps = made.steps + 1
        local n = made.steps
        return { seconds = n * 1e-3, foreign = disturbed(n) and 1.0 or 0.0, memory = 1.0 }
      end
      function watch.await() made.waited = made.waited + 1 end
      return watch
    end
  end
  after_each(function() validate_watch.new = new end)
  local small = { 2, 16, 2, 32, 1, 1, 16 }
  local cases = { validate.case(small), validate.case(small) }

  it("trains cases in turn, and counts steps, not warm-ups", function()
    replaced(function() return false end)
    local results = ranks.train(cases, 8)
    -- Two steps a turn, behind 3 that warm up, later 1; the second case's lie between the first's.
    assert.same({ 8, 8 }, { results[1].steps, results[2].steps })
    assert.equal(2 * (5 + 3 + 3 + 3), made.steps)
    -- Timed: steps 4, 5, 12, 13, 18, 19, 24, 25 of all, and 9, 10, 15, 16, 21, 22, 27, 28; the n-th takes n ms.
    for i, middle in ipairs { (12 + 13 + 18 + 19) / 4e3, (15 + 16 + 21 + 22) / 4e3 } do
      assert.is_true(math.abs(results[i].step_seconds - middle) < 1e-9, tostring(results[i].step_seconds))
      assert.is_true(math.abs(results[i].wall_seconds - middle) < 1e-9)
    end
    assert.equal(0, made.waited)
    assert.is_false(results[1].disturbed)
    assert.is_true(results[1].last_loss < results[1].first_loss)
  end)

  it("goes on, four times as long at most, and waits, where steps were disturbed", function()
    replaced(function(n) return n <= 28 end)
    local results = ranks.train(cases, 8)
    assert.same({ 16, 8 }, { results[1].steps, results[1].undisturbed_steps })
    assert.is_true(made.waited > 0)
    replaced(function() return true end)
    results = ranks.train(cases, 8)
    assert.equal(32, results[2].steps)
    assert.equal(0, results[2].undisturbed_steps)
    assert.is_true(results[2].disturbed)
    -- Loss is told at the same step however many follow.
    replaced(function() return false end)
    assert.equal(results[1].last_loss, ranks.train(cases, 8)[1].last_loss)
  end)
end)

--- Chances that one plan is faster than another.
local explain = require "ett.search.explain"
local sure = require "ett.search.sure"

--- A plan with a step of `seconds`, of which a share is network time.
local function plan(seconds, network, program)
  local parts = {}
  for _, name in ipairs(explain.part_order) do parts[name] = 0.0 end
  parts.compute, parts.network = seconds * (1 - network), seconds * network
  return { seconds = seconds, value = seconds, parts = parts, whole = seconds, program = program, place = "x",
    software = "s", spread = 0.1, runs = 0.3 }
end

describe("the probability that a plan is faster", function()
  it("is a half for equal plans; both orders add up to one", function()
    assert.equal(0.5, sure.chance(plan(1, 0.1, "a"), plan(1, 0.3, "b")))
    for _, other in ipairs { plan(1.02, 0.1, "a"), plan(0.9, 0.2, "b"), plan(1.5, 0.0, "a") } do
      local one = plan(1, 0.1, "a")
      assert.is_true(math.abs(sure.chance(one, other) + sure.chance(other, one) - 1) < 1e-12)
    end
  end)

  it("is more certain for similar plans and for plans with the same kernels", function()
    local one = plan(1, 0.1, "a")
    local same, far = sure.chance(one, plan(1.02, 0.1, "a")), sure.chance(one, plan(1.02, 0.3, "a"))
    assert.is_true(same > far and far > 0.5)
    assert.is_true(same > sure.chance(one, plan(1.02, 0.1, "b")))
  end)

  it("shares the errors of a device among its clusters", function()
    local e = { device = "x", cluster = "fast", plan = { tp = 8 } }
    assert.equal(sure.program(e), sure.program { device = "x", cluster = "slow", plan = { tp = 8 } })
    assert.not_equal(sure.program(e), sure.program { device = "y", cluster = "fast", plan = { tp = 8 } })
    local rows = {}
    for i, cluster in ipairs { "fast", "slow" } do rows[i] = { values = { 0.97 + 0.03 * i }, cluster = cluster } end
    local device, own_run = "x", 0.0
    local function estimate_of(row)
      local step = row.values[1]
      return { cluster = row.cluster, device = row.cluster == "fast" and "x" or device,
        plan = { tp = 8, pp = 1, cp = 1, dp = 1, ep = 1 }, own_run_seconds = own_run,
        step_seconds = step, low_seconds = 0.8, high_seconds = step + math.sqrt((1.2 - step) ^ 2 + own_run ^ 2),
        operators = {}, collectives = {}, idle_seconds = step }
    end
    local chance = 100 * sure.chance(plan(1, 0.1, "a"), plan(1.03, 0.1, "a"))
    assert.near(chance, sure.rows(rows, estimate_of).best_percent, 1.5) -- without the devices' error of 20 %
    device = "y"
    local unlike = sure.rows(rows, estimate_of).best_percent
    assert.is_true(unlike < 65)
    own_run = 0.5 -- the same software runs both plans
    assert.equal(unlike, sure.rows(rows, estimate_of).best_percent)
  end)

  it("is less certain for plans of two software: each has the errors of its steps and of its runs", function()
    local rows, own_run = {}, 0.0
    for i, stack in ipairs { "megatron", "torchtitan" } do rows[i] = { values = { 0.9 + 0.1 * i }, stack = stack } end
    local function best()
      return sure.rows(rows, function(row)
        local step = row.values[1]
        return { device = "x", stack = row.stack, plan = { tp = 8, pp = 1, cp = 1, dp = 1, ep = 1, stack = row.stack },
          step_seconds = step, low_seconds = 0.9 * step, high_seconds = (1 + math.sqrt(0.01 + own_run ^ 2)) * step,
          own_run_seconds = own_run * step, operators = {}, collectives = {}, idle_seconds = step }
      end).best_percent
    end
    local recipes = best()
    own_run = 0.5
    local others = best()
    rows[2].stack = "megatron:launch_seconds=0" -- the same software
    local same = best()
    assert.is_true(others < recipes - 3 and recipes < same - 3, ("%g %g %g"):format(others, recipes, same))
  end)

  it("is settled by measuring an operator or a collective whose shares differ, if any", function()
    local function measure_first(first, second)
      local function estimate_of(row)
        local seconds = row.values[1]
        return { device = "x", plan = { tp = 8, pp = 1, cp = 1, dp = 1, ep = 1 }, step_seconds = seconds,
          low_seconds = 0.8, high_seconds = 1.2, idle_seconds = seconds - row.products - row.messages,
          operators = { { name = "linear_qkv", seconds = row.products } },
          collectives = { { name = "send_recv", group = "pp", seconds = row.messages } } }
      end
      return sure.rows({ first, second }, estimate_of).measure_first
    end
    local one = { values = { 1 }, products = 0.7, messages = 0.1 }
    assert.is_nil(measure_first(one, { values = { 1 }, products = 0.7, messages = 0.1 }))
    local x = measure_first(one, { values = { 1 }, products = 0.69, messages = 0.05 })
    assert.same({ "send_recv (pp)", "10 5" }, { x.line, ("%.0f %.0f"):format(x.best_percent, x.other_percent) })
  end)

  it("agrees with random draws of the errors of two plans", function()
    for _, other in ipairs { plan(1.03, 0.12, "a"), plan(1.03, 0.12, "b"), plan(1.2, 0.5, "a") } do
      local one = plan(1, 0.1, "a")
      local drawn = sure.best({ one, other }, 20000)
      assert.is_true(math.abs(drawn[1] - sure.chance(one, other)) < 0.02)
    end
  end)

  it("counts the errors of a device once: its interval contains those of its parts", function()
    local one, other = plan(1, 0.1, "a"), plan(1.3, 0.1, "b")
    other.place = "y"
    local scale = math.sqrt(sure.own ^ 2 + one.spread ^ 2 + other.spread ^ 2)
    assert.near(scale, sure.scale(sure.difference(one, other), sure), 1e-12)
    local like = { plan(1, 0.1, "a"), plan(1.3, 0.5, "b"), other } -- within a place, shares count as before
    assert.near(sure.chance(like[1], like[2]), sure.chance(plan(1, 0.1, "a"), plan(1.3, 0.5, "b")), 1e-12)
    like[3].value = 1e9
    assert.near(sure.best(like, 20000)[1], sure.chance(like[1], like[2]), 0.02)
  end)

  it("agrees with random draws of the errors of two devices", function()
    for _, case in ipairs { { 1.03, 0.12, 0.02 }, { 1.2, 0.1, 0.1 }, { 1.5, 0.7, 0.2 }, { 0.7, 0.3, 0.4 } } do
      local one, other = plan(1, 0.1, "a"), plan(case[1], case[2], "b")
      other.place, other.spread = "y", case[3]
      local shared = sure.best({ one, other }, 20000)[1]
      assert.near(shared, sure.chance(one, other), 0.01)
      local never = plan(1e9, 0.1, "c") -- draws the errors of its software, too
      never.place, never.software = "z", "t"
      assert.near(shared, sure.best({ one, other, never }, 20000)[1], 0.01)
      never.place = one.place -- a plan that cannot win does not count for those that can, whatever its shares
      never.parts = plan(1e9, 0.9, "c").parts
      assert.near(shared, sure.best({ one, other, never }, 20000)[1], 0.01)
      never.place, other.runs = "z", 0.6 -- one software: its runs have one error
      assert.near(shared, sure.best({ one, other, never }, 20000)[1], 0.01)
      other.runs, other.software = one.runs, "t"
      assert.near(sure.best({ one, other }, 20000)[1], sure.chance(one, other), 0.01)
    end
  end)

  it("lists the rows of other devices that are not clearly worse", function()
    local rows = {}
    for i, device in ipairs { "x", "x", "y" } do rows[i] = { values = { 0.8 + 0.2 * i }, cluster = device } end
    local wanted = {}
    local function estimate_of(row, interval)
      wanted[interval] = true
      return { device = row.cluster, plan = { tp = 8, pp = 1, cp = 1, dp = 1, ep = 1 }, step_seconds = row.values[1],
        low_seconds = 0.6 * row.values[1], high_seconds = 1.5 * row.values[1], operators = {}, collectives = {},
        idle_seconds = row.values[1] }
    end
    local s = sure.rows(rows, estimate_of)
    assert.equal(1, #s.alike) -- row 2 is 20 % slower on the same device, row 3 40 % on another
    assert.equal(3, s.alike[1].row)
    assert.is_true(s.alike[1].beats_best_percent > 10 and rows[3].best_percent > 10)
    assert.same({ [true] = true }, wanted)
    table.remove(rows)
    sure.rows(rows, estimate_of)
    assert.is_true(wanted[false]) -- one device: its error is that of every row
  end)

  it("has constants that also pairs of plans with a clear order determine", function()
    local truth, pairs_of, state = { own = 0.04, same = 0.03, shared = 0.3 }, {}, 7
    local function uniform()
      state = state * 48271 % 2147483647
      return state / 2147483647
    end
    for i = 1, 150 do
      local difference = { source = "source " .. i % 5, log = 0.2 + 0.2 * uniform(), apart = 0.1 * uniform() ^ 3,
        same = i % 3 == 0, places = 0.0 }
      local y = 2 * uniform() - 1 -- a draw of t with two degrees of freedom
      difference.off = sure.scale(difference, truth) * y * math.sqrt(2 / (1 - y * y))
      difference.held = difference.log + difference.off > 0
      pairs_of[i] = difference
    end
    local found = require("ett.base.find").load("spec/bench", "search").constants(pairs_of)
    for name, value in pairs(truth) do
      assert.is_true(found[name] >= 0.66 * value and found[name] <= 1.34 * value, name .. " " .. found[name])
    end
  end)
end)

--- Visits of shapes, turns of tables, and how the CPU back end combines several visits.
local turns = require "ett.sampling.turns"
local Visits = require "ett.sampling.visits"

local function run(values, count, visit, merge, stop, again)
  local block, seen = {}, {}
  for i, value in ipairs(values) do block[i] = { values = value } end
  local whole = Visits.run(block, count, { merge = merge or Visits.better, again = again,
    visit = function(value, before)
      seen[#seen + 1] = value
      return visit(value, before)
    end,
    stop = stop or function() return false end, turn = function() end })
  return block, seen, whole
end

describe("the visits of a block", function()
  it("alternate between shapes, so visits of one shape are separated in time", function()
    local _, seen, whole = run({ "a", "b" }, 3, function() return { forward = { seconds = 1.0 } } end)
    assert.equals("ababab", table.concat(seen))
    assert.is_true(whole)
  end)

  it("keep the best one if the back end has no merge", function()
    local times = { 3.0, 1.0, 2.0 }
    local block = run({ "a" }, 3, function() return { forward = { seconds = table.remove(times, 1) } } end)
    assert.equals(1.0, block[1].results.forward.seconds)
  end)

  it("end after half of them if the time is known", function()
    local _, seen = run({ "a", "b" }, 4, function(value) return { name = value } end,
      function(_, now) return now, now.name == "a" end)
    assert.equals("ababbb", table.concat(seen))
  end)

  it("are repeated after disturbances while time remains", function()
    local disturbed, left = { a = 3, b = 0, c = 9 }, 5
    local block, seen, whole = run({ "a", "b", "c" }, 2, function(value) return { name = value } end,
      function(before, now)
        now.visits = (before and before.visits or 0) + 1
        return now, false, now.visits <= disturbed[now.name]
      end, nil, function()
        left = left - 1
        return left >= 0
      end)
    assert.equals("abcabc" .. "ac" .. "ac" .. "c", table.concat(seen))
    assert.is_true(whole)
    assert.equals(5, block[3].visits)
  end)

  it("end at the time limit, but not before half of them", function()
    local asked = {}
    local block, seen = { { values = "a" }, { values = "b" } }, {}
    local whole = Visits.run(block, 4, { merge = Visits.better, stop = function() return false end,
      turn = function() end,
      visit = function(value)
        seen[#seen + 1] = value
        return { forward = { seconds = 1.0 } }
      end,
      pace = function(done)
        asked[#asked + 1] = done
        return done < 0.3
      end })
    assert.is_true(whole)
    assert.equals("abab", table.concat(seen))
    assert.same({ 0, 0.125, 0.25, 0.375, 0.5 }, asked)
    assert.equals(2, block[2].visits)
  end)

  it("end at a failure, which is the result", function()
    local block, seen = run({ "a", "b" }, 3, function(value)
      if value == "a" then return nil, { kind = "memory", message = "no" } end
      return { forward = { seconds = 1.0 } }
    end)
    assert.equals("abbb", table.concat(seen))
    assert.equals("memory", block[1].err.kind)
    assert.is_nil(block[1].results)
  end)

  it("stop between two, and say how many each shape has had", function()
    local made = 0
    local block, _, whole = run({ "a", "b" }, 4, function()
      made = made + 1
      return { forward = { seconds = 1.0 } }
    end, nil, function() return made == 5 end)
    assert.is_false(whole)
    assert.equals(3, block[1].visits)
    assert.equals(2, block[2].visits)
  end)
end)

describe("visits that an earlier run made", function()
  it("are not made again", function()
    local a, b = { values = "a" }, { values = "b" }
    local seen, turned = {}, {}
    Visits.restore(a, { { forward = { seconds = 2.0 } }, { forward = { seconds = 1.0 } } }, 3, Visits.better)
    assert.equals(1.0, a.results.forward.seconds)
    Visits.run({ a, b }, 3, { merge = Visits.better, stop = function() return false end,
      turn = function(under_way) turned[#turned + 1] = under_way end,
      visit = function(value)
        seen[#seen + 1] = value
        return { forward = { seconds = 1.5 } }
      end })
    assert.equals("bbab", table.concat(seen))
    assert.same({ 2 / 3, 4 / 3, 5 / 3, 2 }, turned) -- after the visits of this run
    assert.equals(1.0, a.results.forward.seconds)
  end)

  it("are read as they were written, but of the same campaign only", function()
    local sample_visits = Visits
    local table_path = os.tmpname()
    local path = sample_visits.path(table_path)
    local visits = sample_visits.open(table_path, "one 1")
    visits.add("8,16", { forward = { seconds = 0.1, raw_seconds = { 0.1, 0.2 }, preempted = false } })
    visits.add("8,16", { forward = { seconds = 0.3, raw_seconds = { 0.3 }, preempted = true } })
    visits.add("9,16", { forward = { seconds = 0.4, raw_seconds = { 0.4 }, preempted = false } })
    visits.close(false)
    local file = assert(io.open(path, "a"))
    file:write('{"shape":"9,16","results":{"forw') -- cut by a kill
    file:close()
    visits = sample_visits.open(table_path, "one 1")
    assert.same({ { forward = { seconds = 0.1, raw_seconds = { 0.1, 0.2 }, preempted = false } },
      { forward = { seconds = 0.3, raw_seconds = { 0.3 }, preempted = true } } }, visits.of "8,16")
    assert.equals(1, #visits.of "9,16")
    visits.add("9,16", { forward = { seconds = 0.5 } }) -- after the cut tail, which goes
    visits.close(false)
    assert.equals(2, #sample_visits.open(table_path, "one 1").of "9,16")
    assert.equals(0, #sample_visits.open(table_path, "one 2").of "9,16")
    assert.is_nil(io.open(path))
    sample_visits.open(table_path, "one 2").close(true)
    os.remove(table_path)
  end)

  it("stay until their shape has a row or failed: another sample or a later run measures it", function()
    local table_path = os.tmpname()
    local path = Visits.path(table_path)
    local visits = Visits.open(table_path, "one 1")
    for _, shape in ipairs { "8", "9", "10" } do visits.add(shape, { forward = { seconds = 0.1 } }) end
    visits.close(false)
    visits = Visits.open(table_path, "one 1")
    assert.equals(1, #visits.of "8")
    visits.close(true)
    visits = Visits.open(table_path, "one 1", { done = { ["8"] = 1 }, failed = { ["10"] = "memory" } })
    assert.equals(1, #visits.of "9")
    visits.close(true)
    assert.is_nil(io.open(path))
    os.remove(table_path)
  end)
end)

describe("tables that take turns", function()
  it("continue with the one that has done least", function()
    local order = {}
    local function job(name, steps)
      return function()
        for i = 1, steps do
          order[#order + 1] = name .. i
          coroutine.yield(i / steps)
        end
        return name
      end
    end
    local done = turns.take { job("a", 2), job("b", 4) }
    -- One step of a is two of b, so that all are done at about the same time.
    assert.equals("a1 b1 b2 a2 b3 b4", table.concat(order, " "))
    assert.equals("a b", table.concat(done, " "))
  end)

  it("take turns of some length, and report the progress of all", function()
    local order, told = {}, {}
    local function job(name, steps)
      return function()
        for i = 1, steps do
          order[#order + 1] = name .. i
          coroutine.yield(i / steps)
        end
      end
    end
    turns.take({ job("a", 8), job("b", 4) }, function(least) told[#told + 1] = least end, 0.5)
    -- Each until it has another half.
    assert.equals("a1 b1 a2 a3 a4 b2 a5 a6 a7 a8 b3 b4", table.concat(order, " "))
    assert.equals(12, #told)
    assert.equals(0.0, told[3])
    assert.equals(2.0, told[#told])
  end)

  it("take turns with something else", function()
    local order = {}
    local function pair(name)
      return function()
        turns.take({ function() for i = 1, 2 do order[#order + 1] = name .. i coroutine.yield(i / 2) end end,
          function() for i = 3, 4 do order[#order + 1] = name .. i coroutine.yield(i / 2 - 1) end end },
          coroutine.yield)
        return name
      end
    end
    local done = turns.take { pair "a", pair "b" }
    assert.equals("a1 a3 b1 b3 a2 a4 b2 b4", table.concat(order, " "))
    assert.equals("a b", table.concat(done, " "))
  end)

  it("raise the error of any of them", function()
    local error_module = require "ett.base.error"
    local ok, err = pcall(turns.take, { function() coroutine.yield(1.0) end,
      function() error_module.raise("lost", "the device is gone") end })
    assert.is_false(ok)
    assert.equals("lost", err.kind)
  end)
end)

if not require("needs").cpu("the CPU back end's visits", _ENV) then return end
local backend = require("ett.base.find").load("samplers", "cpu")

describe("the CPU back end's visits", function()
  local operator = require "ett.operator"
  local session

  setup(function() session = assert(backend.open { visits = 2, budget_seconds = 0.004, cold_bytes = 8 << 20 }) end)
  teardown(function() session.close() end)

  it("are pooled: every repeat of each counts once", function()
    local op, s = operator.get "gelu", { tokens = 64, width = 64 }
    local a = assert(session.measure(op, s))
    local b = assert(session.measure(op, s, a))
    for _, pass in ipairs(op.passes) do
      -- Guards may have marked either visit; the spec is about the pooling.
      for _, visit in ipairs { a, b } do
        visit[pass].preempted, visit[pass].slow_clock, visit[pass].memory_seconds = false, false, 1e-9
      end
    end
    local count = #a.forward.raw_seconds + #b.forward.raw_seconds
    local sum = a.forward.repeats + b.forward.repeats
    local merged = session.merge(session.merge(nil, a), b)
    assert.equals(count, #merged.forward.raw_seconds)
    assert.equals(sum, merged.forward.repeats)
    assert.equals(require("ett.sample").stats(merged.forward.raw_seconds).low, merged.forward.seconds)
  end)

  --- A visit of one pass as session.measure returns it.
  local function visit(seconds, repeats, marked)
    local raw = {}
    for i = 1, repeats do raw[i] = seconds end
    local pass = { seconds = seconds, raw_seconds = raw, repeats = repeats, dropped = 0, clock_ratio = 1.0,
      half_width_seconds = 0.0, preempted = false, slow_clock = false, memory_seconds = 1e-9 }
    for key, value in pairs(marked or {}) do pass[key] = value end
    return { forward = pass }
  end

  it("leave out one that was disturbed when the other was not", function()
    local merged = session.merge(session.merge(nil, visit(1.0, 1, { preempted = true })), visit(2.0, 1))
    assert.equals(2.0, merged.forward.seconds)
    assert.is_false(merged.forward.preempted)
    assert.equals(2, merged.forward.repeats)
  end)

  it("all count for the median; otherwise those with undisturbed memory", function()
    local function slow() return visit(2.0, 3, { memory_seconds = 1.0 }) end
    local function merged(from)
      return from.merge(from.merge(from.merge(nil, visit(1.0, 3)), slow()), slow()).forward
    end
    local typical = assert(backend.open { visits = 3, statistic = "median", cold_bytes = 8 << 20 })
    local ok, why = pcall(function()
      assert.equals(2.0, merged(typical).seconds)
      assert.equals(9, #merged(typical).raw_seconds)
    end)
    typical.close()
    if not ok then error(why, 0) end
    assert.equals(1.0, merged(session).seconds)
  end)

  it("of a campaign whose tables take turns write every row once", function()
    local campaign, sampler = require "ett.sampling.campaign", require "ett.sampling.sampler"
    local store = require "ett.sampling.store"
    local folder = os.tmpname()
    os.remove(folder)
    require("ett.base.folder").make(folder)
    local given = campaign.resolve({ name = "turns", visits = 3, block = 8, interleave = true, budget_seconds = 0.003,
      samples = { { operator = "gelu", shapes = { tokens = { 16, 32, 48 }, width = 64 } },
        { operator = "optimizer", shapes = { params = { 1000, 2000 } } } } }, "turns")
    given.fingerprint = "0"
    local begun, at_once = 0, 0
    local reports = sampler.run(given, { out = folder, on_begin = function() begun = begun + 1 end,
      on_progress = function(report) if report.measured == 0 then at_once = math.max(at_once, begun) end end })
    assert.equals(2, at_once) -- both were running before either had a row
    assert.equals(5, reports[1].measured + reports[2].measured)
    for _, report in ipairs(reports) do
      local held = store.held(report.path, report.name == "gelu" and 2 or 1)
      assert.equals(report.name == "gelu" and 3 or 2, held.rows)
      for _, count in pairs(held.done) do assert.equals(1, count) end
    end
    -- Nothing is left to do.
    for _, report in ipairs(sampler.run(given, { out = folder })) do assert.equals(0, report.measured) end
    os.execute(("rm -r '%s'"):format(folder))
  end)
end)

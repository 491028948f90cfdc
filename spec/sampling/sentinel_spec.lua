--- Visits between probes of the memory system, with synthetic probes.
local sentinel = require "ett.sampling.sentinel"

--- A sentinel that saw `count` probes of each of the seconds given, in that order.
local function seen(...)
  local watch = sentinel.new()
  for _, part in ipairs { ... } do
    for i = 1, part[1] do
      watch:add(part[2] * (1 + 0.001 * (i % 3)))
      watch:figure()
    end
  end
  return watch
end

describe("the sentinel", function()
  it("takes the lowest twentieth of the probes as the undisturbed machine", function()
    local watch = seen({ 30, 20e-6 }, { 70, 30e-6 })
    assert.is_near(20e-6, watch:undisturbed(), 0.1e-6)
    assert.is_near(1.5, watch:ratio(30e-6), 0.01)
  end)

  it("ignores one slow probe, but not two around a measurement", function()
    local watch = seen { 50, 20e-6 }
    watch:add(60e-6)
    assert.is_near(1.0, watch:ratio(watch:figure()), 0.01)
    watch:add(60e-6)
    assert.is_near(3.0, watch:ratio(watch:figure()), 0.01)
    watch:add(20e-6)
    assert.is_near(1.0, watch:ratio(watch:figure()), 0.01)
  end)

  it("knows from an earlier session that a whole session was disturbed", function()
    local watch = sentinel.new(20e-6)
    for _ = 1, 50 do watch:add(40e-6) end
    assert.equals(2.0, watch:ratio(watch:figure()))
  end)

  it("counts memory as quiet up to 5 % slow, or 10 % if the machine's probes vary that much", function()
    assert.is_near(1.05, seen({ 100, 20e-6 }):limit(), 1e-9)
    assert.is_near(1.08, seen({ 10, 20e-6 }, { 90, 21.6e-6 }):limit(), 0.005)
    assert.is_near(1.10, seen({ 10, 20e-6 }, { 90, 40e-6 }):limit(), 1e-9)
  end)

  it("takes the visits of an earlier run into account", function()
    local watch = seen { 20, 40e-6 }
    assert.is_near(1.0, watch:ratio(40e-6), 0.01)
    for _ = 1, 20 do watch:recall(20e-6) end
    assert.is_near(2.0, watch:ratio(40e-6), 0.01)
  end)
end)

describe("of the visits of a shape", function()
  local function chosen(visits, least)
    local list, quiet = sentinel.choose(visits, 1.05, least)
    local names = {}
    for i, visit in ipairs(list) do names[i] = visit.name end
    table.sort(names)
    return table.concat(names), quiet
  end

  it("the undisturbed ones are used", function()
    assert.same({ "ac", 2 }, { chosen({ { name = "a", ratio = 1.0 }, { name = "b", ratio = 1.3 },
      { name = "c", ratio = 1.04 } }, 1) })
  end)

  it("the least disturbed ones are used if too few were undisturbed", function()
    assert.same({ "ac", 1 }, { chosen({ { name = "a", ratio = 1.0 }, { name = "b", ratio = 1.3 },
      { name = "c", ratio = 1.2 } }, 2) })
  end)

  it("one that lost its processor or its clock is used only if all did", function()
    assert.same({ "b", 0 }, { chosen({ { name = "a", ratio = 1.0, disturbed = true },
      { name = "b", ratio = 1.3 } }, 2) })
    assert.same({ "ac", 0 }, { chosen({ { name = "a", ratio = 1.0, disturbed = true },
      { name = "c", ratio = 1.5, disturbed = true } }, 1) })
  end)
end)

if not require("needs").cpu("the CPU back end", _ENV) then return end
local backend = require("ett.base.find").load("samplers", "cpu")

describe("the CPU back end", function()
  local session, op

  setup(function()
    session = assert(backend.open { visits = 4, budget_seconds = 0.004, cold_bytes = 1 << 20 })
    op = require("ett.operator").get "gelu"
    -- The machine undisturbed, as this spec has it: probes of 10 us.
    for _ = 1, 2000 do session.recall { forward = { memory_seconds = 1e-5 } } end
  end)
  teardown(function() session.close() end)

  local function visit(seconds, memory_seconds)
    return { forward = { seconds = seconds, raw_seconds = { seconds, seconds, seconds }, repeats = 3, dropped = 0,
      clock_ratio = 1.0, half_width_seconds = 0.0, preempted = false, slow_clock = false,
      memory_seconds = memory_seconds } }
  end

  local function merged(...)
    local result, settled, wanting
    for _, one in ipairs { ... } do result, settled, wanting = session.merge(result, one) end
    return result.forward, settled, wanting
  end

  it("stores the state of memory with every visit", function()
    local result = assert(session.measure(op, { tokens = 16, width = 16 }))
    assert.is_true(result.forward.memory_seconds > 0 and result.backward.memory_seconds > 0)
  end)

  it("takes the time of undisturbed visits, and needs half of all to be undisturbed", function()
    local _, few_settled, few_wanting = merged(visit(1.0, 1e-5), visit(1.5, 2e-5), visit(0.9, 3e-5))
    assert.is_true(few_wanting)
    assert.is_false(few_settled)
    local result, settled, wanting = merged(visit(1.0, 1e-5), visit(1.5, 2e-5), visit(1.0, 1e-5))
    assert.equals(1.0, result.seconds)
    assert.is_true(settled)
    assert.is_false(wanting)
    assert.is_false(result.slow_memory)
  end)

  it("keeps the repeats of its visits in the order measured", function()
    assert.same({ 1.1, 1.1, 1.1, 1.0, 1.0, 1.0 },
      merged(visit(1.1, 1.02e-5), visit(1.5, 3e-5), visit(1.0, 1e-5)).raw_seconds)
  end)

  it("does not mark a row whose least disturbed visits were nearly undisturbed", function()
    assert.is_false(merged(visit(1.0, 1.12e-5), visit(1.0, 1.11e-5), visit(1.6, 3e-5)).slow_memory)
  end)

  it("marks a row without an undisturbed visit", function()
    local result = merged(visit(1.5, 2e-5), visit(1.4, 1.5e-5), visit(1.6, 3e-5))
    assert.is_true(result.slow_memory)
    local sample_table = require "ett.samples.table"
    local lines, why = sample_table.marks_of("16,16", { forward = result })
    assert.matches("^#~ disturbed: 16,16: forward: memory %d+ %% slow, 0 of 3 visits undisturbed$", lines[1])
    assert.is_not_nil(why)
  end)
end)

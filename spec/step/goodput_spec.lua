--- Goodput against a simulation of failures, one event after the other.
local estimate = require "ett.step.estimate"
local goodput = require "ett.step.goodput"
local model_module = require "ett.model"
local plan_module = require "ett.plan"

local function generator(seed)
  local state = seed
  return function() -- above 0 and at most 1
    state = state * 6364136223846793005 + 1442695040888963407
    return ((state >> 11) + 1) / 2.0 ^ 53
  end
end

--- Share of the time that makes progress, over `segments` of work that end with a checkpoint.
local function simulated(random, segments, work, write, between, restart)
  local function next_failure() return -between * math.log(random()) end
  local clock, failure = 0.0, next_failure()
  for _ = 1, segments do
    while failure < clock + work + write do -- lost: restarts, each of which may fail, too
      clock, failure = failure, failure + next_failure()
      while failure < clock + restart do clock, failure = failure, failure + next_failure() end
      clock = clock + restart
    end
    clock = clock + work + write
  end
  return segments * work / clock
end

describe("goodput", function()
  it("is that of a simulation of failures within 2 %: 100 cases", function()
    local random, worst = generator(5), 0.0
    for case = 1, 100 do
      local between = 3600 * (1 + 30 * random())
      local work, write, restart = between * (0.02 + 0.5 * random()), 1 + 120 * random(), 10 + 900 * random()
      local wanted = simulated(random, 40000, work, write, between, restart)
      local got = goodput.share(work, write, between, restart)
      worst = math.max(worst, math.abs(got / wanted - 1))
      assert.is_true(math.abs(got / wanted - 1) <= 0.02, ("case %d: wanted %g, got %g"):format(case, wanted, got))
    end
    assert.is_true(worst > 0)
  end)

  it("is the largest at the interval that it chooses", function()
    for _, case in ipairs { { 30, 3600, 600 }, { 300, 36000, 60 }, { 5, 1e6, 600 } } do
      local write, between, restart = table.unpack(case)
      local best = goodput.interval(write, between)
      local share = goodput.share(best, write, between, restart)
      for _, factor in ipairs { 0.5, 0.8, 1.25, 2 } do
        assert.is_true(goodput.share(factor * best, write, between, restart) < share)
      end
    end
  end)

  it("of a run lengthens it, and is what failures, bandwidth and restarts of plan and cluster say", function()
    local model = model_module.new("llama", { layers = 8, hidden = 1024, heads = 16, vocab = 32000 })
    local function run(plan)
      local full = { seq = 1024, dp = 8, micro_batches = 4, tokens = 1e10 }
      for k, v in pairs(plan) do full[k] = v end
      return estimate.new { model = model, cluster = "dgx_h100", plan = full }
    end
    local e = run { failures_per_device_day = 0.01, restart_seconds = 300, checkpoint_seconds = 1000,
      checkpoint_bandwidth = 1e7 }
    assert.near(86400 / (0.01 * 8), e.failure_interval_seconds, 1e-6)
    assert.near(e.stages[1].parameters * 14 / 8 / 1e7, e.checkpoint_write_seconds, 1e-6)
    assert.near(100 * goodput.share(1000, e.checkpoint_write_seconds, e.failure_interval_seconds, 300),
      e.goodput_percent, 1e-9)
    assert.near(e.run_steps * e.step_seconds / e.goodput_percent * 100, e.run_seconds, 1e-6)
    assert.matches("goodput", tostring(e))
    local own = run {}
    assert.near(86400 / (4.74e-4 * 8), own.failure_interval_seconds, 1e-6)
    assert.is_nil(run({ failures_per_device_day = 0 }).goodput_percent)
  end)

  it("refuses a rate above one", function()
    local ok, raised = pcall(function()
      return plan_module.new { seq = 8, micro_batches = 1, failures_per_device_day = 1.5 }
    end)
    assert.is_false(ok)
    assert.matches("field 'failures_per_device_day' must be a number from 0 to 1, got 1.5", tostring(raised), 1, true)
    local cluster = {}
    for k, v in pairs(require("ett.profile.cluster").get "dgx_h100") do cluster[k] = v end
    cluster.failures, cluster.path, cluster.folder = { per_device_day = 2, source = "spec" }, nil, nil
    cluster.node_tier = nil
    ok, raised = pcall(require("ett.profile.cluster").get, cluster)
    assert.is_false(ok)
    assert.matches("failures: field 'per_device_day' must be at most 1, got 2", tostring(raised), 1, true)
  end)
end)

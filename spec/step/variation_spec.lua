--- The distribution of the step where devices vary: against devices drawn one by one.
local estimate = require "ett.step.estimate"
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local variation = require "ett.step.variation"

local function generator(seed)
  local state = seed
  return function()
    state = state * 6364136223846793005 + 1442695040888963407
    return ((state >> 11) + 1) / 2.0 ^ 53
  end
end

--- Factors of `count` steps, sorted: every device drawn, groups and replicas waited for.
local function drawn(random, count, shape, v)
  local function device()
    local z = math.sqrt(-2 * math.log(random())) * math.cos(2 * math.pi * random())
    return (random() <= v.slow_share and v.slow_factor or 1) * (1 + v.jitter * z)
  end
  local factors = {}
  for i = 1, count do
    local worst = 0.0
    for _ = 1, shape.replicas do
      local most, sum = 0.0, 0.0
      for _ = 1, shape.stages do
        local slowest = 0.0
        for _ = 1, shape.ranks do slowest = math.max(slowest, device()) end
        most, sum = math.max(most, slowest), sum + slowest
      end
      worst = math.max(worst, (1 - shape.fill) * most + shape.fill * sum / shape.stages)
    end
    factors[i] = worst
  end
  table.sort(factors)
  return factors
end

describe("the distribution of the slowest replica", function()
  local cases = {
    { { stages = 1, ranks = 8, replicas = 4, fill = 0 }, { jitter = 0.03, slow_share = 0, slow_factor = 1.2 } },
    { { stages = 1, ranks = 1, replicas = 16, fill = 0 }, { jitter = 0.02, slow_share = 0.05, slow_factor = 1.3 } },
    { { stages = 4, ranks = 2, replicas = 4, fill = 0.3 }, { jitter = 0.03, slow_share = 0, slow_factor = 1.2 } },
    { { stages = 4, ranks = 4, replicas = 2, fill = 0.2 }, { jitter = 0.02, slow_share = 0.02, slow_factor = 1.3 } },
    { { stages = 8, ranks = 1, replicas = 8, fill = 0.5 }, { jitter = 0.01, slow_share = 0.01, slow_factor = 1.5 } },
    { { stages = 2, ranks = 2, replicas = 4, fill = 1 }, { jitter = 0.02, slow_share = 0.02, slow_factor = 1.1 } },
    { { stages = 4, ranks = 2, replicas = 2, fill = 0.1 }, { jitter = 0, slow_share = 0.05, slow_factor = 1.4 } },
    -- A stage without a slow device has probability 1e-12, 32 of them 1e-384: less than the least double.
    { { stages = 32, ranks = 12, replicas = 1, fill = 0.3 }, { jitter = 0.02, slow_share = 0.9, slow_factor = 1.2 } },
  }
  it("is that of devices drawn one by one, within 1 %", function()
    local random, count = generator(9), 1500
    for i, case in ipairs(cases) do
      local shape, v = case[1], case[2]
      local factors, below = drawn(random, count, shape, v), variation.below(shape, v)
      -- The share of draws below each quantile; of a jump, the jump must hold it.
      for _, share in ipairs { 0.5, 0.9, 0.99 } do
        local got = variation.quantile(below, share, 4)
        local low, high = factors[math.floor(count * (share - 0.025)) + 1], factors[math.min(count,
          math.floor(count * math.min(share + 0.025, 0.9999)) + 1)]
        assert.is_true(got >= low * 0.99 and got <= high * 1.01, ("case %d, p%g: got %.4f, drawn %.4f to %.4f"):format(
          i, 100 * share, got, low, high))
      end
    end
  end)

  it("of a million devices with 1 % slow ones costs no more than that of eight", function()
    local start = os.clock()
    collectgarbage()
    local before = collectgarbage "count"
    local below = variation.below({ stages = 16, ranks = 8, replicas = 7813, fill = 0.2 }, { jitter = 0.02,
      slow_share = 0.01, slow_factor = 1.2 })
    local p50, p99 = variation.quantile(below, 0.5, 4), variation.quantile(below, 0.99, 4)
    assert.is_true(p50 > 1.2 and p99 >= p50 and p99 < 1.4)
    assert.is_true(os.clock() - start < 5)
    assert.is_true(collectgarbage "count" - before < 50e3)
  end)
end)

describe("a step of unlike devices", function()
  local model = model_module.new("llama", { layers = 8, hidden = 1024, heads = 16, vocab = 32000 })
  local function run(plan)
    local full = { seq = 1024, tp = 2, pp = 2, dp = 2, micro_batches = 8 }
    for k, v in pairs(plan) do full[k] = v end
    return estimate.new { model = model, cluster = "dgx_h100", plan = full }
  end

  it("waits for a straggler, wherever it is, by its computing alone", function()
    local even = {}
    for i = 1, 8 do even[i] = 1 end
    local base = run {}
    assert.is_nil(base.varied_p50_seconds)
    assert.near(base.step_seconds, run({ rank_slowdown = even }).varied_p50_seconds, 1e-12)
    local last
    for rank = 1, 8 do
      even[rank] = 2
      local seconds = run({ rank_slowdown = even }).varied_p50_seconds
      assert.is_true(seconds > 1.2 * base.step_seconds and seconds < 2 * base.step_seconds)
      assert.equal(last or seconds, seconds)
      last, even[rank] = seconds, 1
    end
  end)

  it("has stragglers where the order of ranks puts them: together on a stage they cost less than on two", function()
    -- Ranks 0 and 1: of one stage and replica in Megatron's order, of two stages where pp is the inner axis.
    local function seconds(order, slow)
      local list = {}
      for i = 1, 8 do list[i] = slow[i] or 1 end
      return run({ rank_order = order, rank_slowdown = list, micro_batches = 2 }).varied_p50_seconds
        - run({ rank_order = order }).step_seconds
    end
    local both = { 2, 2 }
    assert.equal(seconds("tp-cp-ep-dp-pp", { 2 }), seconds("tp-cp-ep-dp-pp", both))
    assert.is_true(seconds("pp-tp-cp-ep-dp", both) > seconds("pp-tp-cp-ep-dp", { 2 }) * 1.05)
    assert.equal(seconds("pp-tp-cp-ep-dp", { 2, 1, 2 }), seconds("pp-tp-cp-ep-dp", { 2 }))
  end)

  it("is longer with more jitter and more slow devices, and its quantiles ascend", function()
    local last = 0
    for _, jitter in ipairs { 0.01, 0.02, 0.05 } do
      local e = run { jitter = jitter }
      assert.is_true(e.varied_p50_seconds > last and e.varied_p50_seconds < e.varied_p90_seconds
        and e.varied_p90_seconds < e.varied_p99_seconds and e.varied_p50_seconds > e.step_seconds)
      last = e.varied_p50_seconds
    end
    assert.matches("variation +p50", tostring(run { slow_share = 0.01 }))
  end)

  it("refuses a list of another length", function()
    local ok, raised = pcall(function()
      return plan_module.new({ seq = 1024, tp = 2, micro_batches = 1, rank_slowdown = { 1, 1, 1 } }, model)
    end)
    assert.is_false(ok)
    assert.matches("rank_slowdown must have one factor for each of the 2 ranks, got 3", tostring(raised), 1, true)
  end)
end)

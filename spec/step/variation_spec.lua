--- The distribution of the step where devices vary: against devices drawn one by one.
local estimate = require "ett.step.estimate"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local simulator = require "pipeline_simulator"
local step_core = require "step_core"
local variation = require "ett.step.variation"

local function generator(seed)
  local state = seed
  return function()
    state = state * 6364136223846793005 + 1442695040888963407
    return ((state >> 11) + 1) / 2.0 ^ 53
  end
end

-- The factor of a device.
local function device(random, v)
  local z = math.sqrt(-2 * math.log(random())) * math.cos(2 * math.pi * random())
  return (random() <= v.slow_share and v.slow_factor or 1) * (1 + v.jitter * z)
end

-- Seconds of a replica whose stages have these factors; 1 for equal devices. One stage is the bottleneck, the others
-- have `slack` seconds. The share `fill` is that of filling the pipeline.
local function seconds_of(shape, factors)
  local most, sum = -math.huge, 0.0
  for s, x in ipairs(factors) do
    most, sum = math.max(most, (1 - shape.fill) * x - (s > 1 and shape.slack or 0)), sum + x
  end
  return most + shape.fill * sum / shape.stages
end

--- Added seconds of `count` steps, sorted: every device drawn, groups and replicas waited for.
local function drawn(random, count, shape, v)
  local list = {}
  for i = 1, count do
    local worst = 0.0
    for _ = 1, shape.replicas do
      local factors = {}
      for s = 1, shape.stages do
        local slowest = 0.0
        for _ = 1, shape.ranks do slowest = math.max(slowest, device(random, v)) end
        factors[s] = slowest
      end
      worst = math.max(worst, seconds_of(shape, factors))
    end
    list[i] = worst - 1
  end
  table.sort(list)
  return list
end

-- The law of such a replica.
local function law_of(shape)
  local factors, single, work = { 1, 1.01, 1.03, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5 }, {}, {}
  local function with(slow, factor)
    local list = {}
    for s = 1, shape.stages do list[s] = (slow == s or not slow) and factor or 1.0 end
    return seconds_of(shape, list) - 1
  end
  for s = 1, shape.stages do
    single[s], work[s] = {}, 1.0
    for i, factor in ipairs(factors) do single[s][i] = with(s, factor) end
  end
  return variation.law(factors, single, with(nil, factors[#factors]), work, true)
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
    -- One stage is the bottleneck, by more or by less than a slow device changes.
    { { stages = 4, ranks = 1, replicas = 8, fill = 0.1, slack = 0.25 },
      { jitter = 0, slow_share = 0.05, slow_factor = 1.2 } },
    { { stages = 4, ranks = 1, replicas = 8, fill = 0.1, slack = 0.02 },
      { jitter = 0.02, slow_share = 0.05, slow_factor = 1.2 } },
    { { stages = 6, ranks = 1, replicas = 1, fill = 0.2, slack = 0.1 },
      { jitter = 0.05, slow_share = 0, slow_factor = 1.2 } },
  }
  it("is that of devices drawn one by one, within 1 % of the step", function()
    local random, count = generator(9), 1500
    for i, case in ipairs(cases) do
      local shape, v = case[1], case[2]
      shape.slack = shape.slack or 0
      local factors, below, least, most = drawn(random, count, shape, v), variation.below(law_of(shape), shape, v)
      -- The share of draws below each quantile; of a jump, the jump must hold it.
      for _, share in ipairs { 0.5, 0.9, 0.99 } do
        local got = variation.quantile(below, share, least, most)
        local low, high = factors[math.floor(count * (share - 0.025)) + 1], factors[math.min(count,
          math.floor(count * math.min(share + 0.025, 0.9999)) + 1)]
        assert.is_true(got >= low - 0.01 and got <= high + 0.01, ("case %d, p%g: got %.4f, drawn %.4f to %.4f"):format(
          i, 100 * share, got, low, high))
      end
      local sum = 0.0
      for _, seconds in ipairs(factors) do sum = sum + seconds / count end
      assert.near(sum, variation.mean(below, least, most), 0.1 * math.max(0.02, sum), "case " .. i)
    end
  end)

  it("of a million devices with 1 % slow ones costs no more than that of eight", function()
    local start = os.clock()
    collectgarbage()
    local before = collectgarbage "count"
    local below, least, most = variation.below(law_of { stages = 16, fill = 0.2, slack = 0 }, { ranks = 8,
      replicas = 7813 }, { jitter = 0.02, slow_share = 0.01, slow_factor = 1.2 })
    local p50, p99 = variation.quantile(below, 0.5, least, most), variation.quantile(below, 0.99, least, most)
    assert.is_true(p50 > 0.2 and p99 >= p50 and p99 < 0.4)
    assert.is_true(os.clock() - start < 5)
    assert.is_true(collectgarbage "count" - before < 50e3)
  end)
end)

describe("steps of slow stages", function()
  -- Stages by their own simulator: units of one rank a stage, which only compute.
  local cases = {
    { split = { 9, 9, 9, 5 } }, -- balanced: the head takes the time of four layers
    { split = { 8, 8, 8, 8 } }, { split = { 5, 10, 10, 7 } },
    { split = { 8, 8, 8, 8 }, micro_batches = 4 }, { split = { 9, 9, 9, 5 }, schedule = "zb_h1" },
  }
  local model = model_module.new("llama", { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336,
    vocab = 128256 })
  local function run(case, more)
    local plan = merged({ pp = 4, dp = 8, seq = 8192, micro_batches = case.micro_batches or 32, stack = "plain",
      split = case.split, schedule = case.schedule }, more)
    return estimate.new { model = model, cluster = "dgx_h100", plan = plan, units = true, interval = false }
  end

  -- A function: step seconds for the factors of the stages.
  local function simulated(e)
    local names = { F = "forward", B = "backward", W = "weight" }
    local s = simulator.schedule(e.plan.schedule, e.plan)
    local given = { forward = {}, backward = {}, weight = {}, send_forward = { 0, 0, 0, 0 },
      send_backward = { 0, 0, 0, 0 }, blocking_sends = true }
    for stage, units in ipairs(e.units) do
      for _, unit in ipairs(units) do given[names[unit[1]]][stage] = unit.seconds end
    end
    for _, t in ipairs(e.transfers) do
      if t.kind == "forward" then given.send_forward[t.slot] = t.seconds end
      if t.kind == "backward" then given.send_backward[t.slot - 1] = t.seconds end
    end
    local function makespan(factors)
      local times = merged(given)
      for _, name in pairs(names) do
        times[name] = {}
        for stage, seconds in ipairs(given[name]) do times[name][stage] = factors[stage] * seconds end
      end
      return (simulator.run(s, times))
    end
    local rest = e.step_seconds - makespan { 1, 1, 1, 1 }
    assert.near(e.step_seconds - e.pipeline_seconds, rest, 1e-6)
    return function(factors) return makespan(factors) + rest end
  end

  it("are those of a simulator, for each stage of known slow ranks", function()
    for _, case in ipairs(cases) do
      local step = simulated(run(case))
      for stage = 1, 4 do
        local list, factors = {}, {}
        for rank = 1, 32 do list[rank] = (rank + 7) // 8 == stage and 1.2 or 1.0 end
        for s = 1, 4 do factors[s] = s == stage and 1.2 or 1.0 end
        assert.near(step(factors), run(case, { rank_slowdown = list }).varied_p50_seconds, 1e-6)
      end
    end
  end)

  it("wait less for the host: as with a stack whose kernels are slower", function()
    local gpt2 = model_module.new "gpt2"
    local experts = model_module.new("mixtral", { layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 32000,
      experts = 8, top_k = 2 })
    local function seconds(stack, case, factor, name)
      local plan, list = { seq = 1024, stack = stack, micro_batches = 8 }, {}
      for rank = 1, 8 do list[rank] = factor end
      for k, v in pairs(case) do plan[k] = v end
      plan.rank_slowdown = list
      return estimate.new { model = case.recompute_modules and experts or gpt2, cluster = "dgx_h100", plan = plan,
        interval = false }[name]
    end
    for _, case in ipairs { { dp = 8 }, { dp = 2, pp = 4, schedule = "zb_h1" }, { dp = 2, pp = 4, recompute = "full" },
      { dp = 2, pp = 4, recompute = "policy" }, { dp = 8, recompute = "selective", recompute_modules = { "moe" } },
      { dp = 2, pp = 2, tp = 2, schedule = "zb_h1" } } do
      for _, stack in ipairs { "megatron", "megatron:reads_counts=none", "megatron:blocking=true", "transformers" } do
        for _, factor in ipairs { 1.2, 8 } do -- the second ends all waits
          local wanted = seconds(("%s:slowdown=%g"):format(stack, factor), case, 1, "step_seconds")
          assert.near(wanted, seconds(stack, case, factor, "varied_p50_seconds"), 1e-9 * wanted)
        end
      end
    end
  end)

  it("wait less behind the numbers of tokens, by what is before each wait", function()
    local large = model_module.new("mixtral", { layers = 4, hidden = 2048, heads = 16, kv_heads = 4, vocab = 32000,
      experts = 32, top_k = 8, moe_ffn = 768, shared_ffn = 4096 })
    local function seconds(stack, factor, name, overlap, modules)
      local list = {}
      for rank = 1, 8 do list[rank] = factor end
      return estimate.new { model = large, cluster = "dgx_h100", interval = false, plan = { seq = 4096, dp = 8, ep = 8,
        micro_batches = 8, stack = stack, rank_slowdown = list, overlap_all_to_all = overlap,
        recompute = modules and "selective" or "none", recompute_modules = modules } }[name]
    end
    -- At 1.2 another wait is the longest one. At 8 megatron does not wait, megatron_moe only for its first launch.
    for _, stack in ipairs { "megatron", "megatron_moe", "megatron:grouped=streams:expert_seconds=2e-5" } do
      for _, factor in ipairs { 1.05, 1.2, 2, 8 } do
        local wanted = seconds(("%s:slowdown=%g"):format(stack, factor), 1, "step_seconds")
        assert.near(wanted, seconds(stack, factor, "varied_p50_seconds"), 1e-9 * wanted, stack)
        -- Slower shared experts hide more of the all-to-alls.
        for _, modules in ipairs { false, { "moe" } } do
          local slow = ("%s:slowdown=%g"):format(stack, factor)
          wanted = seconds(slow, 1, "step_seconds", "shared_experts", modules or nil)
          assert.near(wanted, seconds(stack, factor, "varied_p50_seconds", "shared_experts", modules or nil),
            1e-9 * wanted, stack)
        end
      end
    end
  end)

  it("have waits of at least 0 seconds", function()
    for _, points in ipairs { { -1, 0, 0 }, { 1, -1, 0 }, { 1, 1, -1 } } do
      local ok, raised = pcall(step_core.program, { kinds = { { place = "middle", count = 1, uses = { 1 } } },
        operations = { { host = "ahead", points = points } } })
      assert.is_false(ok)
      assert.equal("operation '?': field 'points' must be a number of at least 0, got -1", raised.message)
    end
  end)

  -- Mean of the slowest of 8 replicas, of all 16 choices of slow stages.
  local function mean_of_slow(step, v)
    local all, mean, below = {}, 0.0, 0.0
    for choice = 0, 15 do
      local factors, share = {}, 1.0
      for s = 1, 4 do
        local slow = choice >> s - 1 & 1 == 1
        factors[s], share = slow and v.slow_factor or 1.0, share * (slow and v.slow_share or 1 - v.slow_share)
      end
      all[choice + 1] = { step(factors), share }
    end
    table.sort(all, function(x, y) return x[1] < y[1] end)
    for _, each in ipairs(all) do
      mean, below = mean + each[1] * ((below + each[2]) ^ 8 - below ^ 8), below + each[2]
    end
    return mean
  end

  local function mean_of_jitter(step, v, random)
    local count, sum = 100, 0.0
    for _ = 1, count do
      local worst = 0.0
      for _ = 1, 8 do
        local factors = {}
        for s = 1, 4 do factors[s] = device(random, v) end
        worst = math.max(worst, step(factors))
      end
      sum = sum + worst / count
    end
    return sum
  end

  it("have the mean of slow devices and of drawn jitter, within 10 % of the added time", function()
    local random = generator(4)
    local slow, jitter = { slow_share = 0.02, slow_factor = 1.2 }, { jitter = 0.03, slow_share = 0, slow_factor = 1.1 }
    for i, case in ipairs(cases) do
      local base = run(case)
      local step = simulated(base)
      for name, each in pairs { slow = { slow, mean_of_slow }, jitter = { jitter, mean_of_jitter } } do
        local added = each[2](step, each[1], random) - base.step_seconds
        local got = run(case, each[1]).varied_mean_seconds - base.step_seconds
        assert.near(1, got / added, 0.1, ("%s, case %d"):format(name, i))
      end
    end
  end)

  it("count slow devices of each stage with jitter, too, as the four steps of two stages do", function()
    for _, split in ipairs { { 10, 6 }, { 13, 3 } } do
      local function added(fields)
        local plan = merged({ pp = 2, seq = 2048, micro_batches = 8, split = split }, fields)
        local e = estimate.new { cluster = "dgx_h100", plan = plan,
          model = model_module.new("llama", { layers = 16, hidden = 2048, heads = 16, vocab = 32000 }) }
        return e.varied_mean_seconds / e.step_seconds - 1
      end
      local first, second = added { rank_slowdown = { 1.25, 1 } }, added { rank_slowdown = { 1, 1.25 } }
      local exact = 0.21 * (first + second) + 0.09 * added { rank_slowdown = { 1.25, 1.25 } }
      for _, jitter in ipairs { 0, 1e-6, 0.01 } do
        local got = added { slow_share = 0.3, slow_factor = 1.25, jitter = jitter }
        assert.near(1, got / exact, 0.006, ("split %d, jitter %g"):format(split[1], jitter))
      end
    end
  end)

  it("wait for gathers of weights no longer than others", function()
    for _, overlap in ipairs { false, true } do
      local slow, computing = {}, 0.0
      for rank = 1, 64 do slow[rank] = rank == 5 and 1.2 or 1.0 end
      local e = estimate.new { model = model, cluster = "dgx_h100", interval = false, plan = { dp = 64, seq = 1024,
        micro_batches = 4, zero = 3, overlap_parameters = overlap, overlap_gradients = overlap, rank_slowdown = slow } }
      for _, line in ipairs(e.operators) do
        if line.name ~= "optimizer" then computing = computing + line.seconds end
      end
      local added = e.varied_p50_seconds - e.step_seconds
      if overlap then
        assert.is_true(added > 0 and added < 0.2 * computing)
      else
        assert.near(0.2 * computing, added, 1e-9)
      end
    end
  end)
end)

describe("the law of added seconds", function()
  it("lets a fast bottleneck shorten a step that another stage only fills", function()
    -- Two stages, 8 micro-batches: the second stage lengthens the step by its work in one of them.
    local factors, single, work = { 1, 1.025, 1.075, 1.15, 1.25 }, { {}, {} }, { 0.2, 0.06 }
    for i, factor in ipairs(factors) do
      single[1][i], single[2][i] = work[1] * (factor - 1), work[2] / 8 * (factor - 1)
    end
    local law = variation.law(factors, single, (work[1] + work[2] / 16) * 0.25, work, true)
    local v, shape = { jitter = 0.05, slow_share = 0, slow_factor = 1.1 }, { ranks = 1, replicas = 1 }
    local below, least, most = variation.below(law, shape, v)
    assert.near(0, variation.mean(below, least, most), 0.01 * v.jitter * work[1]) -- all is linear
    assert.near(-1.2816 * v.jitter * work[1], variation.quantile(below, 0.1, least, most), 0.02 * v.jitter * work[1])
    -- A slow device of the second stage still counts.
    law = variation.law(factors, single, (work[1] + work[2] / 16) * 0.25, work, false)
    below, least, most = variation.below(law, shape, { jitter = 0, slow_share = 0.5, slow_factor = 1.25 })
    local mean = 0.5 * single[1][5] + 0.25 * single[2][5] + 0.25 * work[2] / 16 * 0.25 -- four choices
    assert.near(mean, variation.mean(below, least, most), 0.01 * mean)
  end)

  it("does not fall where a stage adds less at a larger factor", function()
    local law = variation.law({ 1, 1.1, 1.2 }, { { 0.0, 0.1, 1e-9 }, { 0.0, 0.0, 0.0 } }, 0.1, { 1.0, 0.5 })
    local shape = { ranks = 8, replicas = 4 }
    local below, least, most = variation.below(law, shape, { jitter = 0, slow_share = 0.01, slow_factor = 1.2 })
    local mean = variation.mean(below, least, most)
    assert.is_true(mean > 0 and mean < 0.2, tostring(mean))
  end)
end)

describe("a step of unlike devices", function()
  local model = model_module.new("llama", { layers = 8, hidden = 1024, heads = 16, vocab = 32000 })
  local function run(plan)
    local full = merged({ seq = 1024, tp = 2, pp = 2, dp = 2, micro_batches = 8 }, plan)
    return estimate.new { model = model, cluster = "dgx_h100", plan = full }
  end

  it("waits for a straggler, on any rank of a stage, by its computing alone", function()
    local even = {}
    for i = 1, 8 do even[i] = 1 end
    local base = run {}
    assert.is_nil(base.varied_p50_seconds)
    assert.near(base.step_seconds, run({ rank_slowdown = even }).varied_p50_seconds, 1e-12)
    local known = {}
    for rank = 1, 8 do
      even[rank] = 2
      local stage, seconds = (rank + 3) // 4, run({ rank_slowdown = even }).varied_p50_seconds
      assert.is_true(seconds > 1.2 * base.step_seconds and seconds < 2 * base.step_seconds)
      assert.equal(known[stage] or seconds, seconds)
      known[stage], even[rank] = seconds, 1
    end
    assert.is_true(known[2] > 1.05 * known[1]) -- the last stage has the head
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
    -- Of 2 x 2 tensor and context ranks of one stage, any one is as slow as all.
    local function slowed(list) return run({ pp = 1, cp = 2, rank_slowdown = list }).varied_p50_seconds end
    local all = slowed { 2, 2, 2, 2, 1, 1, 1, 1 }
    for rank = 1, 4 do
      local list = { 1, 1, 1, 1, 1, 1, 1, 1 }
      list[rank] = 2
      assert.equal(all, slowed(list), rank)
    end
  end)

  it("is longer with more jitter and more slow devices, and its quantiles ascend", function()
    local last = 0
    for _, jitter in ipairs { 0.01, 0.02, 0.05 } do
      local e = run { jitter = jitter }
      assert.is_true(e.varied_p50_seconds > last and e.varied_p50_seconds < e.varied_p90_seconds
        and e.varied_p90_seconds < e.varied_p99_seconds and e.varied_p50_seconds > e.step_seconds)
      last = e.varied_p50_seconds
      assert.near(e.price_per_device_hour * 8 * e.varied_mean_seconds / 3600, e.dollars_per_step, 1e-12)
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

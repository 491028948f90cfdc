--- Goodput against a simulation of failures, one event after the other.
local estimate = require "ett.step.estimate"
local goodput = require "ett.step.goodput"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local run_oracles = require "run_oracles"

describe("goodput", function()
  it("agrees with a simulation of failures within 2 %: 100 cases", function()
    local worst = run_oracles.goodput(100, 5)
    assert.is_true(worst > 0 and worst <= 0.02, worst)
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

  it("counts the two stages that hold each slice of a two-way schedule", function()
    local function write(schedule)
      return estimate.new { model = model_module.new("llama", { layers = 8, hidden = 1024, heads = 16, vocab = 32000 }),
        cluster = "dgx_h100", plan = { seq = 1024, pp = 4, dp = 2, micro_batches = 8, zero = 1, schedule = schedule } }
        .checkpoint_write_seconds
    end
    local once, twice = write "1f1b", write "chimera"
    assert.is_true(twice > 0.5 * once and twice < 1.05 * once, twice / once)
  end)

  it("takes failures and restarts of the cluster, and of the plan before them", function()
    local function share(p, failures)
      return goodput.of(merged({ dtype = "bf16", device_storage_bandwidth = 1e9 }, p), { failures = failures }, 8, 1e9,
        1.0).goodput_percent
    end
    local stated = { failures_per_device_day = 1, restart_seconds = 900 }
    assert.equal(share(stated), share({}, { per_device_day = 1, restart_seconds = 900 }))
    assert.equal(share(stated), share(stated, { per_device_day = 2, restart_seconds = 90 }))
    assert.is_true(share(stated) < share({}, { per_device_day = 1 }))
  end)

  it("lengthens a run, and follows failures, bandwidth and restarts of plan and cluster", function()
    local model = model_module.new("llama", { layers = 8, hidden = 1024, heads = 16, vocab = 32000 })
    local function run(plan)
      local full = merged({ seq = 1024, dp = 8, micro_batches = 4, tokens = 1e10 }, plan)
      return estimate.new { model = model, cluster = "dgx_h100", plan = full }
    end
    local e = run { failures_per_device_day = 0.01, restart_seconds = 300, checkpoint_every_seconds = 1000,
      device_storage_bandwidth = 1e7 }
    assert.near(86400 / (0.01 * 8), e.failure_interval_seconds, 1e-6)
    assert.near(e.stages[1].parameters * 14 / 8 / 1e7, e.checkpoint_write_seconds, 1e-6)
    local cast = run { failures_per_device_day = 0.01, stack = "transformers:autocast", gradient_dtype = "fp32" }
    assert.near(cast.stages[1].parameters * 12 / 8, cast.checkpoint_bytes, 1) -- the fp32 weight and two moments
    local work = math.ceil(1000 / e.step_seconds) * e.step_seconds
    assert.near(100 * goodput.share(work, e.checkpoint_write_seconds, e.failure_interval_seconds, 300),
      e.goodput_percent, 1e-9)
    assert.near(e.run_steps * e.step_seconds / e.goodput_percent * 100 / 86400, e.run_days, 1e-10)
    assert.matches("goodput", tostring(e))
    local own = run {}
    assert.near(86400 / (4.74e-4 * 8), own.failure_interval_seconds, 1e-6)
    for _, rate in ipairs { 0, 1e-320, 1e-300 } do
      assert.is_nil(run({ failures_per_device_day = rate }).goodput_percent)
    end
  end)

  it("has checkpoints after whole steps, and one at the end of a run shorter than their interval", function()
    local model = model_module.new("llama", { layers = 8, hidden = 1024, heads = 16, vocab = 32000 })
    local function run(plan)
      local full = merged({ seq = 1024, dp = 8, micro_batches = 4, failures_per_device_day = 1, restart_seconds = 60,
        device_storage_bandwidth = 1e9, tokens = 1e12 }, plan)
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = full }
      local text
      for _, warning in ipairs(e.warnings) do text = warning:match "^checkpoint_every_seconds.*" or text end
      local function share(work)
        return 100 * goodput.share(work, e.checkpoint_write_seconds, e.failure_interval_seconds, 60)
      end
      return e, share, text
    end
    local e, share, text = run { micro_batches = 400, checkpoint_every_seconds = 1 }
    assert.is_true(e.step_seconds > 1 and share(e.step_seconds) > share(1) + 1)
    assert.near(share(e.step_seconds), e.goodput_percent, 1e-9)
    assert.equal(e.step_seconds, e.checkpoint_interval_seconds)
    assert.equal(("checkpoint_every_seconds = 1: a checkpoint follows each step of %.4g s"):format(e.step_seconds),
      text)
    for k = 1, 40 do -- multiples in few digits are multiples
      local rounded = tonumber(("%.14g"):format(k * e.step_seconds))
      local own, _, warning = run { micro_batches = 400, checkpoint_every_seconds = rounded }
      assert.near(k * e.step_seconds, own.checkpoint_interval_seconds, 1e-9 * rounded)
      assert.is_nil(warning)
    end
    e, share, text = run { micro_batches = 400, checkpoint_every_seconds = 1, jitter = 0.2 }
    assert.near(share(e.varied_mean_seconds), e.goodput_percent, 1e-9)
    assert.matches("each step", text)
    -- The best interval is below the step.
    e, share, text = run { micro_batches = 400, device_storage_bandwidth = 1e16 }
    assert.is_true(goodput.interval(e.checkpoint_write_seconds, e.failure_interval_seconds) < e.step_seconds)
    assert.near(share(e.step_seconds), e.goodput_percent, 1e-9)
    assert.is_nil(text)
    for _, given in ipairs { 1e6, false } do -- a run of some seconds
      e, share, text = run { tokens = 3e7, checkpoint_every_seconds = given or nil }
      local work = e.run_steps * e.step_seconds
      assert.near(share(work), e.goodput_percent, 1e-9)
      assert.is_true(e.run_steps > 500 and work < 30)
      assert.equal(given and ("checkpoint_every_seconds = 1e+06: the run has %.4g s of work and one checkpoint, at "
        .. "its end"):format(work) or nil, text)
    end
    e, share, text = run { checkpoint_every_seconds = 1000 }
    assert.near(share(math.ceil(1000 / e.step_seconds) * e.step_seconds), e.goodput_percent, 1e-9)
    assert.is_nil(text)
    local step, seen = run({ micro_batches = 400 }).step_seconds, {}
    for _, case in ipairs { { 1.2, 2, true }, { 1.95, 2 }, { 3.0, 3 }, { 20.5, 21 } } do
      local given, count, warned = table.unpack(case)
      e, share, text = run { micro_batches = 400, checkpoint_every_seconds = given * step }
      assert.near(count * step, e.checkpoint_interval_seconds, 1e-9 * step)
      assert.near(share(count * step), e.goodput_percent, 1e-9)
      assert.equal(warned and ("checkpoint_every_seconds = %g: a checkpoint follows every %d steps of %.4g s")
        :format(given * step, count, step) or nil, text)
    end
    for _, wanted in ipairs { 0.3, 1.3, 1.6, 2.4, 2.6 } do -- the best interval in steps
      local write = 1.0 -- of a checkpoint, whose bandwidth follows
      local between = e.failure_interval_seconds
      for _ = 1, 60 do write = write * (wanted * step / goodput.interval(write, between)) ^ 2 end
      e = run { micro_batches = 400,
        device_storage_bandwidth = e.plan.device_storage_bandwidth * e.checkpoint_write_seconds / write }
      assert.near(wanted * step, goodput.interval(e.checkpoint_write_seconds, between), 1e-6 * step)
      local best = 1
      for k = 2, 4 do
        local function of(count) return goodput.share(count * step, e.checkpoint_write_seconds, between, 60) end
        if of(k) > of(best) then best = k end
      end
      seen[best] = true
      assert.near(best * step, e.checkpoint_interval_seconds, 1e-9 * step)
    end
    assert.same({ true, true, true }, seen)
  end)

  it("of its own interval never makes a run with a shorter step longer", function()
    local counts = {}
    for _, bandwidth in ipairs { 1e9, 1e8, 5e7, 2.5e7 } do -- a checkpoint takes up to twice the time between failures
      local p = { failures_per_device_day = 0.5, device_storage_bandwidth = bandwidth, dtype = "bf16",
        optimizer_bytes = 12 }
      local before = 0.0
      for i = 1, 2000 do
        local step = 20 * 1.003 ^ i
        local own = goodput.of(p, {}, 64, 1e10, step)
        if own.goodput_percent == 0 then break end
        counts[math.floor(own.checkpoint_interval_seconds / step + 0.5)] = true
        assert.is_true(step / own.goodput_percent > before, step)
        before = step / own.goodput_percent
      end
    end
    assert.is_true(counts[1] and counts[2] and counts[3] and counts[8])
  end)

  it("is at most that without a step, for any step, interval and length of the run", function()
    local worst = 1.0
    for i = 1, 300 do
      local function pick(n, most) return most ^ ((i * n % 301) / 301) end
      local p = { failures_per_device_day = pick(2, 1e-4), restart_seconds = pick(3, 1e4),
        device_storage_bandwidth = 1e9,
        checkpoint_every_seconds = i % 3 > 0 and pick(5, 1e6) or nil, dtype = "bf16", optimizer_bytes = 12 }
      local parameters = pick(7, 1e11)
      local bound = goodput.of(p, {}, 64, parameters).goodput_percent
      local own = goodput.of(p, {}, 64, parameters, pick(11, 1e4), i % 2 == 0 and math.ceil(pick(13, 1e5)) or nil)
      assert.is_true(own.goodput_percent <= bound * (1 + 1e-9), i)
      if bound > 1 then worst = math.min(worst, 1 - own.goodput_percent / bound) end
    end
    assert.is_true(worst < 1e-3) -- close to the bound in some cases
  end)

  it("is zero where no run ends: no days and dollars, in estimates and searches", function()
    local model = model_module.new("llama", { layers = 4, hidden = 512, heads = 8, vocab = 32000 })
    local plan = { seq = 1024, dp = 8, global_batch = 8, failures_per_device_day = 1, restart_seconds = 1e7 }
    local e = estimate.new { model = model, cluster = "dgx_h100", plan = plan, tokens = 1e9 }
    assert.equal(0, e.goodput_percent)
    for _, name in ipairs { "run_days", "run_dollars", "run_kwh", "run_co2_kg" } do assert.is_nil(e[name], name) end
    assert.matches("run +1 B tokens never end: failures come before the next checkpoint", tostring(e))
    assert.is_string(require("ett.json").encode(e))
    plan.restart_seconds = 3e5 -- a share of 1e-12
    assert.equal(0, estimate.new({ model = model, cluster = "dgx_h100", plan = plan }).goodput_percent)
    plan.restart_seconds = 1e7
    plan.dp, plan.tp, plan.pp, plan.cp = nil, 1, 1, 1
    local function search(objective)
      return require("ett.search.search").new { model = model, cluster = "dgx_h100", devices = 8, plan = plan,
        tokens = 1e9, objective = objective }
    end
    assert.equal("a run of 1e+09 tokens never ends: on 8 devices, failures come before the next checkpoint",
      search("days").nothing)
    local s = search "step_seconds"
    assert.is_nil(s.rows[1].run_days)
    assert.is_string(require("ett.json").encode(s))
  end)

  it("refuses a rate above one", function()
    local ok, raised = pcall(function()
      return plan_module.new { seq = 8, micro_batches = 1, failures_per_device_day = 1.5 }
    end)
    assert.is_false(ok)
    assert.matches("field 'failures_per_device_day' must be a number from 0 to 1, got 1.5", tostring(raised), 1, true)
    local cluster = merged(require("ett.profile.cluster").get "dgx_h100")
    cluster.failures, cluster.path, cluster.folder = { per_device_day = 2, source = "spec" }, nil, nil
    cluster.node_tier = nil
    ok, raised = pcall(require("ett.profile.cluster").get, cluster)
    assert.is_false(ok)
    assert.matches("failures: field 'per_device_day' must be at most 1, got 2", tostring(raised), 1, true)
  end)
end)

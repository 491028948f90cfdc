--- Laws of every estimate, for any profile: bounds of time, memory and rates, and
--- units in its JSON. On random plans, on a proportional cluster and on the bundled ones.
local estimate = require "ett.step.estimate"
local json = require "ett.json"
local random_plans = require "random_plans"
local near = require "near"

local with = random_plans.with

local function run(p, model)
  return estimate.new { model = model, cluster = random_plans.flat, profile = random_plans.profile(), plan = p }
end

local function not_above(a, b, message)
  assert.is_true(a <= b * (1 + 1e-12) + 1e-15, ("%s: %.17g is above %.17g"):format(message, a, b))
end

local function each_plan(count, seed, visit)
  for _, model in ipairs { random_plans.llama(12), random_plans.mixture(12) } do
    for _, p in ipairs(random_plans.plans(count, seed, model)) do visit(p, model, json.encode(p)) end
  end
end

--- Seconds that a stage computes and communicates for its layers, over the whole step.
local function busy(s) return s.forward_seconds + s.backward_seconds + s.recompute_seconds end

describe("an estimate", function()
  it("is at least the work of any stage with its updates, and the passage of one micro-batch", function()
    each_plan(24, 31, function(p, model, text)
      local e, way = run(p, model), 0
      for _, s in ipairs(e.stages) do
        not_above(busy(s) + s.gradient_exposed_seconds + s.tied_embedding_seconds + s.optimizer_seconds
          + s.gather_exposed_seconds, e.step_seconds, "a stage of " .. text)
        way = way + s.micro_batch_forward_seconds + s.micro_batch_backward_seconds
      end
      not_above(way, e.pipeline_seconds, "the way of " .. text)
      not_above(e.pipeline_seconds, e.step_seconds, "the pipeline of " .. text)
    end)
  end)

  it("has no bubble in a pipeline of one", function()
    each_plan(16, 32, function(p, model, text)
      local e = run(with(p, { pp = 1, vp = 1, schedule = p.schedule == "gpipe" and "gpipe" or "1f1b",
        overlap_all_to_all = p.schedule == "gpipe" and "none" or p.overlap_all_to_all }), model)
      assert.is_true(math.abs(e.bubble_percent) < 1e-9, text)
      assert.equal(1, #e.stages)
    end)
  end)

  it("computes no more on a rank when more replicas share the global batch", function()
    each_plan(30, 33, function(p, model, text)
      if p.micro_batches % 2 ~= 0 then return end
      local wide = with(p, { dp = 2 * p.dp, micro_batches = p.micro_batches // 2 })
      if #require("ett.plan").violations(wide, model, random_plans.flat) > 0 then return end
      local one, two = run(p, model), run(wide, model)
      near(one.tokens_per_step, two.tokens_per_step, "tokens of " .. text)
      for i, s in ipairs(one.stages) do
        -- Pairs of micro-batches hide less where there are fewer of them: what is hidden counts as work.
        local hidden = s.all_to_all_overlapped_seconds
        not_above(busy(two.stages[i]), busy(s) + hidden, "stage of " .. text)
      end
      near(one.model_flops_per_step, two.model_flops_per_step, "FLOPs of " .. text)
    end)
  end)

  it("needs no less memory for larger micro-batches or more of them, nor for longer sequences", function()
    each_plan(20, 34, function(p, model, text)
      local e = run(p, model)
      for _, changes in ipairs { { micro_batch = 2 * p.micro_batch }, { micro_batches = 2 * p.micro_batches },
        { seq = 2 * p.seq } } do
        local more = run(with(p, changes), model)
        for i, s in ipairs(e.stages) do
          not_above(s.memory_bytes, more.stages[i].memory_bytes, "stage of " .. text)
          near(s.weight_bytes, more.stages[i].weight_bytes, "weights of " .. text)
        end
      end
    end)
  end)

  it("never exceeds the device's peak rate, and its interval contains it, on any bundled cluster", function()
    local random = random_plans.generator(35)
    each_plan(24, 36, function(p, model, text)
      local cluster = random { "perlmutter", "vista", "dgx_a100", "dgx_h100", "dgx_h200", "dgx_b200" }
      p.dtype = "bf16"
      local e = estimate.new { model = model, cluster = cluster, plan = p }
      assert.is_true(e.mfu_percent > 0 and e.mfu_percent < 100, cluster .. " " .. text)
      assert.is_true(e.low_seconds > 0 and e.low_seconds <= e.step_seconds and e.step_seconds <= e.high_seconds, text)
      not_above(e.idle_percent, 100, text)
      for _, s in ipairs(e.stages) do not_above(busy(s), e.step_seconds, cluster .. " " .. text) end
    end)
  end)
end)

-- What a number of the JSON is, by the end of its name; counts and choices of a plan by the whole of it.
local units = { "_seconds", "_bytes", "_percent", "_share", "_per_second", "_per_step", "_per_device",
  "_per_device_hour", "_per_billion_tokens", "_per_micro_batch", "_watts", "_kwh", "_kg", "_days", "_dollars", "pue" }
local counts = { devices = true, parameters = true, expert_parameters = true, frozen_parameters = true,
  matrix_parameters = true, layers = true, degree = true, fullest_stage = true, nodes = true }

describe("an estimate's JSON", function()
  it("names the unit of every number; rates and shares agree with the seconds", function()
    local model = random_plans.mixture(12)
    local e = estimate.new { model = model, cluster = "dgx_h100", tokens = 1e12, plan = { seq = 2048, micro_batches = 8,
      pp = 2, dp = 4, ep = 4, zero = 1, overlap_gradients = true, overlap_all_to_all = "batch" } }
    local data = json.decode(json.encode(e))
    local function walk(value, path)
      for key, item in pairs(value) do
        local known = counts[key] or key == "plan" or key == "hyper" or key == "run_tokens" or key == "run_steps"
          or tostring(key) == "provenance_seconds" -- the unit of all in it
        if type(item) == "table" and not known then
          walk(item, path .. "." .. tostring(key))
        elseif type(item) == "number" and not known then
          local named = false
          for _, ending in ipairs(units) do named = named or ("_" .. key):sub(-#ending) == ending end
          assert.is_true(named, "no unit in " .. path .. "." .. tostring(key))
        end
      end
    end
    walk(data, "estimate")
    near(data.tokens_per_step, data.tokens_per_second * data.step_seconds, "tokens")
    near(data.tokens_per_second, data.tokens_per_second_per_device * data.devices, "per device")
    near(data.model_flops_per_step / data.step_seconds / data.devices / data.peak_flops_per_second,
      data.mfu_percent / 100, "MFU")
    near(data.idle_seconds / data.step_seconds, data.idle_percent / 100, "idle")
    near(data.run_days * 86400 * data.goodput_percent / 100, data.run_steps * data.step_seconds, "the run")
    for _, list in ipairs { data.operators, data.collectives } do
      for _, line in ipairs(list) do near(line.seconds / data.step_seconds, line.percent / 100, line.name) end
    end
    for _, s in ipairs(data.stages) do
      near(busy(s) / data.step_seconds, s.percent / 100, "stage")
      near(s.memory_bytes, s.weight_bytes + s.gradient_bytes + s.optimizer_bytes + s.activation_bytes
        + s.temporary_bytes + s.working_bytes + s.update_bytes + s.cached_bytes + s.workspace_bytes + s.fragment_bytes
        + s.communicator_bytes + s.context_bytes, "memory")
    end
  end)
end)

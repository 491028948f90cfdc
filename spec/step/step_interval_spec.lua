--- How the intervals of operators become that of a step (ett_step_interval), and how the correlation
--- between their errors is estimated (spec/support/step_intervals.lua).
local estimate = require "ett.step.estimate"
local lower_times = require "ett.step.times"
local model_module = require "ett.model"
local near = require "near"
local step_intervals = require "step_intervals"

local cluster = { name = "flat", path = "spec", gpus_per_node = 4,
  device = { name = "D", peak_flops = { bf16 = 1e14, fp32 = 5e13 }, memory_bytes = 80e9, memory_bandwidth = 1e12 } }

--- Times with intervals that differ from operator to operator, and between their sides.
local function profile()
  local operator = require "ett.operator"
  return { operator = function(_, name, shape, dtype, pass)
    local op = operator.get(name)
    local seconds = op.flops(shape, pass) / 1e14 + op.bytes(shape, dtype, pass) / 1e12
    local spread = 0.02 * (1 + #name % 5)
    return { seconds = seconds, low_seconds = seconds * (1 - spread), high_seconds = seconds * (1 + 2 * spread),
      provenance = "measured" }
  end }
end

describe("a step's interval", function()
  it("combines the intervals of its operators with the correlation of estimates", function()
    local model = model_module.new("llama", { layers = 6, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 })
    local plan = { seq = 2048, micro_batch = 1, micro_batches = 4, gradient_dtype = "fp32", fused_accumulation = false }
    local times = lower_times.new(cluster, profile())
    local e = estimate.new { model = model, cluster = cluster, times = times, plan = plan }
    local lowered = require("ett.step.lower").program(model, require("ett.plan").new(plan, model, cluster), times)
    local parts = {}
    for _, kind in ipairs(lowered.kinds) do
      for index, uses in pairs(kind.uses) do
        parts[index] = parts[index] or { value = 0.0, down = 0.0, up = 0.0 }
        local o, part, runs = lowered.operations[index], parts[index], 4 * kind.count * uses
        local none = { seconds = 0, low_seconds = 0, high_seconds = 0 }
        for _, time in ipairs { o.forward or none, o.backward or none } do
          part.value = part.value + runs * time.seconds
          part.down = part.down + runs * (time.seconds - time.low_seconds)
          part.up = part.up + runs * (time.high_seconds - time.seconds)
        end
      end
    end
    lowered.program:close()
    local update = e.stages[1].optimizer_seconds
    local name = "first_stage_optimizer"
    local spread = 0.02 * (1 + #name % 5)
    parts[#parts + 1] = { value = update, down = update * spread, up = 2 * update * spread }
    local value, low, high = step_intervals.interval(parts, estimate.correlation)
    near(value, e.step_seconds)
    near(low, e.low_seconds)
    near(high, e.high_seconds)
  end)

  it("lies between independent errors and one common error", function()
    local parts = { { value = 3, down = 0.3, up = 0.4 }, { value = 5, down = 0.4, up = 0.3 } }
    local _, low, high = step_intervals.interval(parts, 0)
    assert.is_true(math.abs(low - 7.5) < 1e-12 and math.abs(high - 8.5) < 1e-12)
    _, low, high = step_intervals.interval(parts, 1)
    assert.is_true(math.abs(low - 7.3) < 1e-12 and math.abs(high - 8.7) < 1e-12)
  end)

  it("contains nine of ten steps whose errors have that correlation; its estimate recovers the value", function()
    local random = require("random").shares(7)
    local function normal() return math.sqrt(-2 * math.log(1 - random())) * math.cos(2 * math.pi * random()) end
    for _, r in ipairs { 0, 0.25, 0.6 } do
      local steps = {}
      for i = 1, 4000 do
        local common, parts = normal(), {}
        for k = 1, 10 do
          local value = 0.5 + random()
          local half = value * 0.05 * (1 + k % 3)
          local z = math.sqrt(r) * common + math.sqrt(1 - r) * normal()
          parts[k] = { value = value, measured = value + z * half / 1.6449, down = half, up = half }
        end
        steps[i] = { cluster = "P", parts = parts }
      end
      assert.is_true(math.abs(step_intervals.correlation(steps) - r) < 0.03)
      assert.is_true(math.abs(step_intervals.coverage(steps, r).coverage - 0.9) < 0.015)
      if r > 0 then assert.is_true(step_intervals.coverage(steps, 0).coverage < 0.8) end
    end
  end)
end)

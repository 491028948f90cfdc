--- The busiest expert-parallel rank: against tokens counted one by one.
local estimate = require "ett.step.estimate"
local expert_spread = require "ett.step.expert_spread"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local raised = require "raised"
local run_oracles = require "run_oracles"

describe("the busiest rank", function()
  it("has the counted number of token copies and dropped tokens: 200 cases", function()
    assert.same({}, run_oracles.experts(200, 7))
  end)

  it("has the shares of a power law, computed by hand", function()
    -- 1, 1/2, 1/3, 1/4 of 25/12, dealt to two ranks: experts 1 and 3.
    local function load(h, p) return (expert_spread.load(h, p)) end
    assert.near(2 * (1 + 1 / 3) / (25 / 12), load({ experts = 4, top_k = 1 }, { ep = 2, expert_skew = 1 }), 1e-12)
    -- With two experts a token none has more than half; the others have 1/4, 1/9, 1/16 of the rest.
    assert.near(2 * (1 / 2 + 1 / 2 * (1 / 9) / (1 / 4 + 1 / 9 + 1 / 16)), load({ experts = 4, top_k = 2 },
      { ep = 2, expert_skew = 2 }), 1e-12)
    assert.equal(1, load({ experts = 4, top_k = 2 }, { ep = 2, expert_skew = 0 }))
    assert.equal(0.75, load({ experts = 4, top_k = 2 }, { ep = 2, expert_skew = 0, capacity_factor = 0.75 }))
  end)
end)

describe("a step with unlike experts", function()
  local hyper = { layers = 4, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000, experts = 16, top_k = 2 }
  local model = model_module.new("mixtral", hyper)
  local function given(plan)
    local full = merged({ seq = 1024, micro_batches = 4, dp = 8, ep = 8 }, plan)
    return { model = model, cluster = "dgx_h100", plan = full }
  end
  local function run(plan) return estimate.new(given(plan)) end
  local function seconds(e, name)
    local sum = 0.0
    for _, list in ipairs { e.operators, e.collectives } do
      for _, line in ipairs(list) do if line.name == name then sum = sum + line.seconds end end
    end
    return sum
  end

  it("waits for the busiest rank, holds its tokens, and computes no more for the model", function()
    local even, skewed = run {}, run { expert_skew = 1.0 }
    assert.is_true(skewed.busiest_expert_rank_percent > 150)
    assert.is_true(seconds(skewed, "expert_linear1") > 1.2 * seconds(even, "expert_linear1"))
    assert.is_true(seconds(skewed, "all_to_all") > 1.2 * seconds(even, "all_to_all"))
    assert.equal(seconds(even, "flash_attention"), seconds(skewed, "flash_attention"))
    assert.is_true(skewed.stages[1].activation_bytes > even.stages[1].activation_bytes)
    assert.near(1, skewed.model_flops_per_step / even.model_flops_per_step, 1e-12)
    assert.matches("experts +the busiest rank has", tostring(skewed))
    assert.is_nil(tostring(even):find("the busiest rank", 1, true))
  end)

  it("is shortened by a capacity, which drops tokens", function()
    local skewed, limited = run { expert_skew = 1.0 }, run { expert_skew = 1.0, capacity_factor = 1.25 }
    assert.is_true(limited.step_seconds < skewed.step_seconds)
    assert.is_true(limited.dropped_tokens_percent > 5 and limited.dropped_tokens_percent < 60)
    assert.equal(0, skewed.dropped_tokens_percent)
  end)

  it("computes empty places of a padded capacity, on all ranks alike and not for the model", function()
    local even, padded = run {}, run { capacity_factor = 1.5, pad_to_capacity = true }
    local skewed = run { capacity_factor = 1.5, pad_to_capacity = true, expert_skew = 1.0 }
    assert.equal(150, padded.busiest_expert_rank_percent)
    assert.equal(0, padded.dropped_tokens_percent)
    assert.is_true(seconds(padded, "expert_linear1") > 1.2 * seconds(even, "expert_linear1"))
    assert.near(even.model_flops_per_step, padded.model_flops_per_step, 1e-9 * even.model_flops_per_step)
    assert.near(padded.step_seconds, skewed.step_seconds, 1e-9 * padded.step_seconds)
    assert.is_true(skewed.dropped_tokens_percent > 5)
  end)

  it("counts no padding of experts, whose tokens are rounded up, as model FLOPs", function()
    local fine = model_module.new("mixtral", { layers = 2, hidden = 1024, heads = 16, vocab = 32000, experts = 48,
      top_k = 4, moe_ffn = 2048 })
    local function per_token(micro_batch, ep, etp)
      local e = estimate.new { model = fine, cluster = "dgx_h100", plan = { seq = 32, micro_batch = micro_batch,
        micro_batches = 2, tp = 2, dp = 8, ep = ep, etp = etp } }
      return e.model_flops_per_step / e.tokens_per_step
    end
    local exact = per_token(3, 1, 2) -- 3 * 32 * 4 / 48 = 8 tokens of an expert
    for _, case in ipairs { { 1, 1, 2 }, { 2, 1, 2 }, { 2, 8, 2 }, { 5, 8, 1 }, { 1, 4, 1 } } do
      assert.near(1, per_token(table.unpack(case)) / exact, 1e-12)
    end
  end)

  it("refuses impossible shares", function()
    local function message(plan, of)
      return raised(function() return plan_module.new(given(plan).plan, of or model) end)
    end
    local shares = {}
    for i = 1, 16 do shares[i] = 0.05 end
    assert.matches("expert_shares must add up to 1, got 0.8", message { expert_shares = shares }, 1, true)
    shares[16] = nil
    assert.matches("expert_shares must have one share for each of the 16 experts, got 15",
      message { expert_shares = shares }, 1, true)
    shares[16] = -0.1
    assert.matches("expert_shares: number 16 must be from 0 to 1 / top_k = 0.5, got -0.1",
      message { expert_shares = shares }, 1, true)
    assert.matches("field 'capacity_factor' must be a positive number, got -1", message { capacity_factor = -1 }, 1,
      true)
    assert.matches("field 'expert_skew' must be a number of at least 0, got -1", message { expert_skew = -1 }, 1, true)
    assert.matches("pad_to_capacity needs a capacity_factor", message { pad_to_capacity = true }, 1, true)
    assert.matches("capacity_factor needs a model with experts", message({ capacity_factor = 1, ep = 1 },
      model_module.new("llama", { layers = 4, hidden = 1024, heads = 16, vocab = 32000 })), 1, true)
  end)
end)

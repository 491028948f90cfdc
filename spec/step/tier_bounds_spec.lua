--- Steps against lower bounds of products, memory and every tier; swept rows against single estimates.
local cluster_module = require "ett.profile.cluster"
local estimate = require "ett.step.estimate"
local random_plans = require "random_plans"
local step_bounds = require "step_bounds"
local swept_plans = require "swept_plans"

describe("random plans", function()
  it("on bundled clusters and random tiers take no less than their products, memory and links need", function()
    local found, tried = step_bounds.below(40, 14)
    assert.equal("", table.concat(found, "\n", 1, math.min(5, #found)))
    assert.is_true(tried > 25)
  end)

  it("come near their bounds if one tier is slow", function()
    local model = random_plans.llama(8)
    local p = { seq = 1024, tp = 2, cp = 1, dp = 16, pp = 1, zero = 0, micro_batch = 1, micro_batches = 1, ep = 1,
      etp = 2, dtype = "bf16", rank_order = "tp-cp-ep-dp-pp", bucket_bytes = 1e12 }
    for slow = 2, 4 do
      local tiers = {}
      for k, size in ipairs { 4, 8, 16, false } do
        tiers[k] = { name = "t" .. k, size = size or nil, bandwidth = k == slow and 1e8 or 4e11, source = "spec" }
      end
      local cluster = cluster_module.get { name = "slow", summary = "one slow tier", source = "spec",
        device = "h100_sxm", tiers = tiers, collectives = { all_reduce = "ring" } }
      local e = estimate.new { model = model, cluster = cluster, plan = random_plans.with(p, {}) }
      local bound = 0
      for _, own in ipairs(step_bounds.of(model.hyper, p, cluster)) do
        if own[1] == "tier " .. slow then bound = own[2] end
      end
      assert.is_true(bound > 0.3 * e.step_seconds and bound <= e.step_seconds,
        ("tier %d needs %.3f s, the step takes %.3f s"):format(slow, bound, e.step_seconds))
    end
  end)

  it("are swept with the digits of single estimates, two fields at a time", function()
    local differ, tried = swept_plans.compare(24, 3)
    assert.equal("", table.concat(differ, "\n", 1, math.min(5, #differ)))
    assert.is_true(tried > 40)
  end)
end)

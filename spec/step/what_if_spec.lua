--- Variations of a plan, by hand, and which errors refuse one.
local error_module = require "ett.base.error"
local estimate = require "ett.step.estimate"
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local what_if = require "ett.step.what_if"

local mixture = model_module.new("mixtral", { layers = 8, hidden = 1024, heads = 16, vocab = 32000, ffn = 2048,
  experts = 8, top_k = 2 })

local function plan(p)
  p.seq, p.global_batch = 1024, 64
  return plan_module.new(p, mixture)
end

--- The changed plan, checked.
local function changed(p, change) return plan(what_if.plan(plan(p), nil, change)) end

describe("a plan with a changed field", function()
  it("has the same devices and batch, or does not exist", function()
    local q = changed({ tp = 2, pp = 2, dp = 8 }, { tp = 8 })
    assert.same({ 8, 2, 2, 64 }, { q.tp, q.pp, q.dp, q.global_batch })
    assert.is_nil(what_if.plan(plan { tp = 2, dp = 2 }, nil, { tp = 3 }))
  end)

  it("keeps the tensor ranks of experts where the plan states others than tp", function()
    assert.equal(1, changed({ tp = 4, etp = 1, dp = 4, ep = 4 }, { tp = 2 }).etp)
    assert.is_nil(changed({ tp = 4, etp = 4, dp = 4, ep = 4 }, { tp = 2 }).etp)
  end)

  it("loses fields that the change would break", function()
    local q = changed({ pp = 2, dp = 2, vp = 2, schedule = "interleaved", interleave_group = 4,
      split = { 1, 3, 2, 2 } }, { pp = 1 })
    assert.same({ "1f1b", 1, 4 }, { q.schedule, q.vp, q.dp })
    assert.is_nil(q.split)
    q = changed({ pp = 2, vp = 2, schedule = "interleaved", interleave_group = 4 }, { schedule = "1f1b", vp = 1 })
    assert.is_nil(q.interleave_group)
    q = changed({ tp = 2, sequence_parallel = true, overlap_tensor = true }, { tp = 1 })
    assert.same({ false, false }, { q.sequence_parallel, q.overlap_tensor })
    q = changed({ tp = 2, sequence_parallel = true, overlap_tensor = true }, { sequence_parallel = false })
    assert.is_false(q.overlap_tensor)
  end)

  it("loses the fields of another value of recompute", function()
    local p = { dp = 2, recompute = "full", recompute_layers = 2, recompute_method = "every" }
    local q = changed(p, { recompute = "none" })
    assert.is_nil(q.recompute_layers)
    assert.equal("block", q.recompute_method)
    assert.is_nil(changed({ dp = 2, recompute = "full", recompute_layer_ids = { 0 } }, { recompute = "none" })
      .recompute_layer_ids)
    q = changed(p, { micro_batch = 2 })
    assert.same({ 2, "every" }, { q.recompute_layers, q.recompute_method })
    q = changed({ dp = 2, recompute = "selective", recompute_modules = { "mlp" } }, { recompute = "full" })
    assert.is_nil(q.recompute_modules)
    q = changed({ dp = 2, recompute = "policy", recompute_keeps = { "linear_qkv" } }, { recompute = "full",
      recompute_layers = 1 })
    assert.is_nil(q.recompute_keeps)
    assert.equal(1, q.recompute_layers)
  end)
end)

describe("the estimate of a variation", function()
  local what = { model = mixture, cluster = "dgx_h100", plan = { seq = 1024, micro_batches = 4 } }

  it("is that of the plan, without an interval", function()
    local e = what_if.estimate(what)
    assert.equal(estimate.new(what).step_seconds, e.step_seconds)
    assert.is_nil(e.low_seconds)
  end)

  it("is the rule that refuses the plan, without the nearest valid plans", function()
    local e, why = what_if.estimate { model = mixture, cluster = "dgx_h100", plan = { seq = 1024, micro_batches = 4,
      tp = 3, dp = 2 } }
    assert.is_nil(e)
    assert.matches("^plan: tp = 3 must divide heads = 16", why)
    assert.is_nil(why:find("nearest passing plans", 1, true))
  end)

  it("raises an interrupt again", function()
    local times = { of_plan = function() error_module.raise("interrupt", "interrupted") end }
    local ok, raised = pcall(what_if.estimate, { model = mixture, cluster = "dgx_h100", plan = what.plan,
      times = times })
    assert.is_false(ok)
    assert.equal("interrupt", raised.kind)
  end)
end)

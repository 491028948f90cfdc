--- Changes that make a plan fit.
local estimate = require "ett.step.estimate"
local fitting = require "ett.search.fitting"
local options = require "ett.base.options"

describe("a plan that does not fit", function()
  local big = require("ett.model").new("llama", { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672,
    vocab = 128256 })
  local cluster = require("ett.profile.cluster").get "dgx_h100"
  local times = require("ett.step.times").new(cluster)

  -- The fields that a hint changes. Checks that it fits as the hint says, and that each of its fields is needed.
  local function changed(plan, model)
    model = model or big
    local words, bytes, devices = fitting.change(model, cluster, times, plan)
    local before = assert(estimate.new { model = model, cluster = cluster, plan = plan, interval = false })
    local after, change = {}, {}
    for name, value in pairs(plan) do after[name] = value end
    for name, text in words:gmatch "([^%s=]+)=(%S+)" do
      after[name], change[name] = options.value(text), options.value(text)
      assert.not_equal(before.plan[name], change[name], words)
    end
    for name in words:gmatch "without (%S+)" do
      assert.is_not_nil(after[name], words)
      after[name], change[name] = nil, false
    end
    local e = estimate.new { model = model, cluster = cluster, plan = after }
    assert.is_true(e.fits)
    assert.equal(e.memory_bytes, bytes)
    assert.equal(before.plan.global_batch, e.plan.global_batch)
    assert.equal(devices or before.devices, e.devices)
    assert.is_true(e.plan.tp <= 8)
    return change, devices
  end

  it("gets a change in its own layout, if one suffices", function()
    assert.same({ sequence_parallel = true, recompute = "full", zero = 3 },
      changed { seq = 8192, tp = 8, dp = 2, micro_batches = 4 })
    assert.same({ micro_batch = 1, micro_batches = 64 },
      changed { seq = 2048, tp = 8, pp = 8, micro_batches = 2, micro_batch = 32, zero = 1 })
    -- The stack has no ZeRO-3.
    assert.is_nil(changed({ seq = 8192, tp = 8, dp = 2, micro_batches = 4, stack = "megatron" }).zero)
    -- Its pipelines have ZeRO 0 and 1 only.
    assert.is_nil(changed({ seq = 4096, tp = 4, pp = 2, dp = 4, micro_batches = 8, zero = 1, recompute = "full",
      stack = "megatron_deepspeed" }).zero)
    assert.is_nil(changed({ seq = 262144, tp = 8, dp = 8, micro_batches = 8, zero = 3, recompute = "full",
      sequence_parallel = true, stack = "megatron_deepspeed" }).pp)
  end)

  it("gets a change without the values that its other fields exclude", function()
    local model = require("ett.model").new("llama", { layers = 32, hidden = 4096, heads = 32, kv_heads = 8,
      ffn = 14336, vocab = 128256 })
    assert.same({ zero = 1 }, changed({ seq = 4096, dp = 8, micro_batches = 4, recompute = "selective",
      recompute_modules = { "layernorm" } }, model))
    assert.same({ zero = 1 }, changed({ seq = 4096, tp = 2, ep = 4, dp = 16, global_batch = 256,
      overlap_all_to_all = "batch" }, require("ett.model").new "mixtral-8x7b"))
  end)

  it("is told to repeat all layers, or to leave out fields of another value of recompute", function()
    local plan = { seq = 8192, tp = 4, pp = 2, dp = 2, micro_batches = 8, recompute = "full" }
    local whole = changed(plan)
    plan.recompute_layers = 1
    local change, devices = changed(plan)
    assert.is_nil(devices)
    assert.is_false(change.recompute_layers)
    change.recompute_layers = nil
    assert.same(whole, change)
    assert.matches("^with [^\n]*tp=8 and without recompute_layers it would fit, in [%d.]+ GB$",
      fitting.sentence(big, cluster, times, plan))
    local small = require("ett.model").new("llama", { layers = 32, hidden = 4096, heads = 32, kv_heads = 8,
      ffn = 14336, vocab = 128256 })
    plan = { seq = 196608, tp = 8, micro_batches = 2, sequence_parallel = true, recompute = "full", zero = 1,
      recompute_layers = 2 }
    assert.same({ recompute_layers = false }, changed(plan, small))
    plan.recompute_layers, plan.recompute_layer_ids = nil, { 3, 19 }
    assert.same({ recompute_layer_ids = false }, changed(plan, small))
    plan.recompute_layer_ids = nil
    plan.recompute, plan.recompute_layers, plan.recompute_modules = "selective", nil, { "layernorm" }
    assert.same({ recompute = "full", recompute_modules = false }, changed(plan, small))
    plan.recompute, plan.recompute_modules, plan.recompute_keeps = "policy", nil, { "linear_qkv", "linear_up" }
    assert.same({ recompute = "full", recompute_keeps = false }, changed(plan, small))
  end)

  it("is told to repeat fewer layers at once", function()
    local model = require("ett.model").new "llama2-13b"
    local plan = { seq = 4096, tp = 2, dp = 4, micro_batch = 4, global_batch = 64, stack = "megatron",
      recompute = "full", recompute_layers = 32, recompute_method = "uniform" }
    assert.same({ recompute_layers = 2, zero = 1 }, changed(plan, model))
    plan.recompute_layers = 8
    assert.same({ zero = 1 }, changed(plan, model))
  end)

  it("gets another layout of its devices, if one fits", function()
    local change, devices = changed { seq = 8192, dp = 16, global_batch = 16, stack = "megatron" }
    assert.is_nil(devices)
    assert.equal(16, change.dp and change.dp * (change.tp or 1) * (change.pp or 1))
    assert.is_nil(change.micro_batches) -- global_batch gives them
  end)

  it("is told the number of devices, if it needs more", function()
    local plan = { seq = 4096, micro_batches = 8, lora_rank = 16 }
    assert.same({ { tp = 2, recompute = "full" }, 2 }, { changed(plan) })
    assert.matches("^with recompute=full tp=2 it would fit on 2 devices, in [%d.]+ GB$",
      fitting.sentence(big, cluster, times, plan))
    local change, devices = changed({ seq = 8192, tp = 8, micro_batches = 8 }, require("ett.model").new "llama3-405b")
    assert.is_nil(change.tp)
    assert.equal(128, devices)
  end)

  it("is told to keep fp8 weights alone, before more is computed again", function()
    local plan = { seq = 8192, tp = 4, dp = 2, global_batch = 8, lora_rank = 16, sequence_parallel = true,
      lora_targets = { "linear_qkv", "linear_proj" }, dtype = "fp8", stack = "megatron" }
    assert.same({ stack = "megatron:quantised_weights=only" }, changed(plan))
    plan.dp, plan.tp, plan.global_batch, plan.seq = 1, 2, 1, 4096
    assert.same({ stack = "megatron:quantised_weights=single" }, changed(plan))
    plan.stack = "megatron:quantised_weights=only:norm=torch"
    assert.same({ stack = "megatron:norm=torch:quantised_weights=single" }, changed(plan))
  end)

  it("is told to take more devices, if no change suffices", function()
    local hopeless = require("ett.model").new("llama", { layers = 2, hidden = 65536, heads = 7, head_dim = 9000,
      vocab = 7 })
    assert.equal("give it more devices", fitting.sentence(hopeless, cluster, times, { seq = 1 << 22,
      micro_batches = 1 }))
  end)
end)

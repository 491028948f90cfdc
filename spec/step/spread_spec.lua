--- The part of a step's interval that follows what the step spends its time in.
local estimate = require "ett.step.estimate"
local in_step = require "ett.profile.in_step"
local merged = require "ett.base.merged"
local spread = require "ett.step.spread"

local function step(plan, hyper, cluster)
  local model = require("ett.model").new(hyper and hyper.experts and "mixtral" or "llama", hyper
    or { layers = 8, hidden = 4096, heads = 32, vocab = 32000 })
  local given = { seq = 4096, micro_batches = 2, stack = "megatron" }
  for name, value in pairs(plan or {}) do given[name] = value or nil end
  return estimate.new { model = model, plan = given, cluster = cluster or "dgx_h100" }
end

local function half_width(e) return (e.high_seconds - e.low_seconds) / 2 / e.step_seconds end

describe("a step's interval", function()
  it("widens by an independent share of the step, more above it than below", function()
    local below, above = in_step.faster * 3, in_step.slower * 3
    local low, high = spread.widened(10, 7, 14, 0.3, 0)
    assert.near(10 - math.sqrt(9 + below ^ 2), low, 1e-12)
    assert.near(10 + math.sqrt(16 + above ^ 2), high, 1e-12)
    assert.is_true(above > below)
    assert.equal(0, (spread.widened(1, 0.5, 2, 3, 0)))
    assert.same({ 7, 15 }, { spread.widened(10, 7, 14, 0, 0.3) }) -- own runs are only slower
  end)

  it("widens by the steps with other values of each open field, as independent errors", function()
    local low, high = spread.opened(10, 7, 14, { { 6, 9, 13 }, { 12 }, {} })
    assert.near(10 - math.sqrt(9 + 16), low, 1e-12)
    assert.near(10 + math.sqrt(16 + 9 + 4), high, 1e-12)
    assert.equal(0, (spread.opened(1, 0.1, 2, { { 0.1 }, { 0.2 } })))
  end)

  it("takes the steps with other values from estimates of these plans, and times no operator but attention again",
    function()
      local fields, device = require "ett.plan.fields", require("ett.profile.cluster").get("dgx_h100").device
      local times = getmetatable(require("ett.profile.device_times").new(device))
      local opened, operator, other_values = spread.opened, times.operator, fields.other_values
      finally(function() spread.opened, times.operator, fields.other_values = opened, operator, other_values end)
      local steps, values, timed = nil, nil, {}
      function spread.opened(step_seconds, low, high, lists)
        steps = lists
        return opened(step_seconds, low, high, lists)
      end
      function fields.other_values(...)
        values = other_values(...)
        return values
      end
      function times:operator(name, ...)
        if self.stack.attention == "flash2" then timed[name] = true end
        return operator(self, name, ...)
      end
      local function compare(given, hyper)
        local whole = step(given, hyper).step_seconds
        local found, changes_of, first = steps, values, merged(timed)
        assert.is_true(#found > 4)
        for i, changes in ipairs(changes_of) do
          local wanted = {}
          for _, change in ipairs(changes) do
            local seconds = step(merged(given, change), hyper).step_seconds
            if not change.vp or seconds < whole then wanted[#wanted + 1] = seconds end -- more chunks only shorten it
          end
          assert.same(wanted, found[i])
        end
        return first
      end
      assert.same({ flash_attention = true },
        compare { pp = 2, tp = 2, dp = 4, zero = 1, micro_batches = 8, stack = "megatron" })
      -- A graph of the step has other products of experts.
      compare({ dp = 8, ep = 8, stack = "megatron_hybridep" },
        { layers = 2, hidden = 2048, heads = 16, ffn = 768, vocab = 9000, experts = 64, top_k = 4, shared_experts = 1 })
    end)

  it("is narrower if the plan states what it would leave open", function()
    local open = { pp = 2, micro_batches = 8, stack = "megatron" }
    local wide = step(open)
    for _, change in ipairs { { schedule = "1f1b" }, { gradient_dtype = wide.plan.gradient_dtype },
      { stack = "megatron:attention=cudnn" } } do
      for name, value in pairs(open) do change[name] = change[name] or value end
      local e = step(change)
      assert.near(wide.step_seconds, e.step_seconds, 1e-12)
      assert.is_true(half_width(e) < half_width(wide) - 1e-4)
    end
    local pytorch = step { micro_batches = 1, stack = "torchtitan" }
    local stated = step { micro_batches = 1, stack = "torchtitan:attention=sdpa" }
    assert.equal(pytorch.step_seconds, stated.step_seconds)
    assert.is_true(half_width(stated) < half_width(pytorch) - 1e-4)
  end)

  it("does not count chunks that lengthen the step", function()
    local plan = { pp = 2, tp = 8, micro_batches = 8, stack = "megatron" }
    local open, chunks = step(plan, nil, "perlmutter"), { vp = 4, schedule = "interleaved" }
    for name, value in pairs(plan) do chunks[name] = value end
    plan.schedule = "1f1b"
    assert.is_true(step(chunks, nil, "perlmutter").step_seconds > 1.1 * open.step_seconds)
    assert.equal(step(plan, nil, "perlmutter").high_seconds, open.high_seconds)
  end)

  it("has the same digits in every process, whatever the order of a table", function()
    local profile = require("ett.profile.of_cluster").open(require("ett.profile.cluster").get "dgx_h100")
    local widths = in_step.step_spread
    for i = 1, 200 do
      local shares, square = { attention = i / 701, collectives = i / 907, experts = i / 1303 }, widths.hopper ^ 2
      for _, kind in ipairs { "attention", "collectives", "experts" } do
        square = square + (widths[kind] * shares[kind]) ^ 2
      end
      shares.memory, shares.by_rates = 0.1, 0
      assert.equal(math.sqrt(square), (profile:step_spread(shares, { dtype = "bf16" }, { name = "x",
        compared = "hopper" })))
    end
  end)

  it("is never narrower with less knowledge of the kernels: samples, tables, neighbours, facts", function()
    local function copied(t)
      local made = {}
      for name, value in pairs(t) do made[name] = type(value) == "table" and copied(value) or value end
      return setmetatable(made, getmetatable(t))
    end
    local function on(knowledge, recipe, model)
      local cluster = copied(require("ett.profile.cluster").get "perlmutter")
      if knowledge < 4 then cluster.profile = nil end
      if knowledge < 3 then cluster.device.folder = model == "gpt" and "/" or nil end -- a folder without tables
      if knowledge < 2 then cluster.device.neighbours = nil end
      return estimate.new { cluster = cluster, model = require("ett.model").new(model, { layers = 8, hidden = 4096,
        heads = 32, vocab = 50304 }), plan = { seq = 2048, micro_batch = 4, micro_batches = 4, tp = 4, dtype = "fp16",
        stack = "megatron", recipe = recipe } }
    end
    for _, model in ipairs { "gpt", "llama" } do -- without samples of swiglu, 1 % of the time is assumed
      for _, recipe in ipairs { true, false } do
        local last = 0.0
        for knowledge = 4, 1, -1 do
          local e = on(knowledge, recipe, model)
          assert.is_true(half_width(e) > last + 0.01, model .. knowledge)
          last = half_width(e)
        end
        assert.is_true(last > 0.6)
      end
    end
    local rates = step({ recipe = true, dtype = "tf32" }) -- a data type without a table on this device
    assert.is_true(half_width(rates) > 1.5 * half_width(step { recipe = true }))
    assert.matches("^%d+ %% of the operators' time follows from facts of .* alone: samples of these operators",
      rates.wide_because[1])
    assert.matches("alone: sample these operators, or give profile = { borrow = 'device' }$",
      step({ dtype = "tf32" }, nil, "perlmutter").wide_because[1])
    local facts = on(1, true, "gpt")
    assert.same({ "100 % of the operators' time follows from facts of NVIDIAA100-SXM4-80GB alone: give the device "
      .. "neighbours or samples" }, facts.wide_because)
    assert.truthy(table.concat(facts.notes, "\n"):find("operator times come from the device's rates: the stack", 1,
      true))
    local said = "recipe has no effect: it needs a stack whose software was compared on this generation of devices"
    for _, e in ipairs { on(4, true, "gpt"), step({ recipe = true, stack = "torchtitan" }, nil, "dgx_b200") } do
      assert.truthy(table.concat(e.warnings, "\n"):find(said, 1, true))
    end
    assert.falsy(table.concat(facts.warnings, "\n"):find(said, 1, true))
  end)

  it("follows the share of the operators' time that is no sample of the cluster", function()
    local cluster = require("ett.profile.cluster").get "perlmutter"
    local profile, widths = require("ett.profile.of_cluster").open(cluster), in_step.step_spread
    local function of(borrowed, assumed)
      return { profile:step_spread({ attention = 0.2, collectives = 0, experts = 0, memory = 0.25, borrowed = borrowed,
        assumed = assumed, by_rates = 0 }, { dtype = "bf16" }, { name = "x", compared = "ampere" }) }
    end
    local other = (0.2 * widths.attention) ^ 2
    for _, case in ipairs { { 1, 1, widths.facts }, { 1, 0, widths.ampere }, { 0.5, 0.25, 0.25 * (widths.facts
      + widths.ampere) } } do
      local share, above = table.unpack(of(case[1], case[2]))
      assert.near(math.sqrt(case[3] ^ 2 + case[1] ^ 2 * other), share, 1e-12)
      assert.near(case[1] * in_step.own_run * 0.5, above, 1e-12)
    end
    assert.same({ 0.0, 0.0, {}, false }, of(0, 0))
  end)

  it("is wider on a generation on which no step of the software was compared", function()
    local widths = in_step.step_spread
    local none = { attention = 0, collectives = 0, experts = 0, memory = 0.1, by_rates = 0 }
    local function of(cluster, compared, recipe)
      return require("ett.profile.of_cluster").open(require("ett.profile.cluster").get(cluster)):step_spread(none,
        { dtype = "bf16", recipe = recipe }, { name = "x", compared = compared })
    end
    local function wider(width) return math.sqrt(width ^ 2 + widths.uncompared ^ 2) end
    assert.near(widths.hopper, (of("dgx_h100", "hopper ampere")), 1e-12)
    assert.near(wider(widths.hopper), (of("dgx_h100", "ampere")), 1e-12)
    assert.near(wider(widths.blackwell), (of("dgx_b200", "hopper")), 1e-12)
    -- The width of a device without published steps covers this for software that was compared on others.
    assert.near(widths.other, (of("mi300x_node", "hopper")), 1e-12)
    assert.near(wider(widths.other), (of("mi300x_node", "none")), 1e-12)
    -- Only recipes of compared software are not slower than estimated.
    local function above(...) return (select(2, of(...))) end
    assert.equal(0, above("dgx_h100", "hopper", true))
    for _, case in ipairs { { "dgx_h100", "hopper", false }, { "dgx_h100", "ampere", true } } do
      assert.near(math.sqrt(0.1) * in_step.own_run, above(table.unpack(case)), 1e-12)
    end
  end)

  it("reaches further above the step of a run that is no recipe, by its operators that memory limits", function()
    local own, recipe = step(), step { recipe = true }
    local memory = 0.0
    for _, line in ipairs(own.operators) do
      local ok, op = pcall(require("ett.operator").get, line.name)
      local family = ok and op.family or line.name
      if family ~= "gemm" and family ~= "attention" and family ~= "host" then memory = memory + line.seconds end
    end
    assert.equal(recipe.low_seconds, own.low_seconds)
    assert.near(in_step.own_run ^ 2 * memory * own.step_seconds, (own.high_seconds - own.step_seconds) ^ 2
      - (recipe.high_seconds - recipe.step_seconds) ^ 2, 1e-9)
    assert.same({}, recipe.wide_because)
    for text, plan in pairs { ["recipe=true is not stated: runs that are not published recipes are often slower"] = {},
      ["no software is named (stack=)"] = { stack = false },
      ["a narrow interval was not tested for this software (stack megatron:compared=none)"] = {
        stack = "megatron:compared=none" },
      ["a narrow interval of stack torchtitan was tested only on ampere and hopper, not on blackwell"] = {
        stack = "torchtitan" } } do
      local e = step(plan, nil, plan.stack == "torchtitan" and "dgx_b200" or "dgx_h100")
      assert.same({ text }, e.wide_because)
      assert.truthy(tostring(e):find("\nwide        " .. text, 1, true))
    end
    assert.same("the steps behind the interval have no device like MI300X; its own samples narrow the interval",
      step(nil, nil, "mi300x_node").wide_because[1])
    -- Another error makes the interval wide: no reason is given.
    assert.is_true(spread.matters(1, 1.5, 0, 0.3))
    assert.is_false(spread.matters(1, 1.5, 0.05, 0.1))
  end)

  it("takes its shares from the lines of the estimate", function()
    local lowered = { operations = { { name = "a", family = "attention" }, { name = "e", family = "gemm",
      experts = true }, { name = "r", family = "router" }, { name = "g", family = "gemm" }, { name = "host" } } }
    local shares = spread.shares(lowered, { { name = "a", seconds = 1 }, { name = "e", seconds = 2 },
      { name = "r", seconds = 1 }, { name = "g", seconds = 4 }, { name = "host", seconds = 0.5 } },
      { { name = "all_to_all", group = "ep", seconds = 0.5 }, { name = "all_reduce", group = "dp", seconds = 2 } }, 16)
    assert.same({ attention = 1 / 16, collectives = 2 / 16, experts = 4 / 16, memory = 1 / 16, borrowed = 0.0,
      assumed = 0.0, by_rates = 0.0 }, shares)
    shares = spread.shares(lowered, { { name = "a", seconds = 1, provenance_seconds = { measured = 1 } },
      { name = "g", seconds = 3, borrowed_seconds = 1, rates_seconds = 0.5,
        provenance_seconds = { assumed = 1, calibrated = 2 } },
      { name = "host", seconds = 4, provenance_seconds = { assumed = 4 } } }, {}, 16)
    assert.same({ 2 / 4, 1 / 4, 0.5 / 4 }, { shares.borrowed, shares.assumed, shares.by_rates })
  end)

  it("is wider with more exposed communication, with experts, in nvfp4 and without a stack", function()
    local dense = half_width(step { recipe = true })
    assert.is_true(half_width(step { tp = 8, sequence_parallel = true, recipe = true }) > dense + 0.02)
    assert.is_true(half_width(step({ ep = 8, dp = 8, recipe = true }, { layers = 8, hidden = 2048, heads = 16,
      vocab = 32000, experts = 64, top_k = 4, moe_ffn = 768 })) > dense + 0.05)
    assert.is_true(half_width(step { stack = false }) > dense + 0.02)
    for _, dtype in ipairs { "nvfp4", "mxfp4" } do
      assert.is_true(half_width(step({ dtype = dtype }, nil, "dgx_b200")) > half_width(step({ dtype = "fp8" }, nil,
        "dgx_b200")) + 0.01)
    end
  end)

  it("lies above the times of the host that the plan states, which have no interval", function()
    local alone = step()
    local device = alone.step_seconds
    local function ends(plan)
      local e = step(plan)
      return { e.step_seconds, e.low_seconds, e.high_seconds, e.data_wait_seconds, e.idle_seconds - alone.idle_seconds }
    end
    local slow = { device + 1, device + 1, math.max(device + 1, alone.high_seconds), 1, 1 }
    for _, case in ipairs {
      { { data_seconds = device / 2 }, { device, math.max(device / 2, alone.low_seconds), alone.high_seconds, 0, 0 } },
      { { data_seconds = device + 1 }, slow },
      { { data_seconds = device / 2, stall_seconds = 3 }, { device + 3, math.max(device / 2, alone.low_seconds) + 3,
        alone.high_seconds + 3, 0, 3 } } } do
      for i, value in ipairs(ends(case[1])) do assert.near(case[2][i], value, 1e-9, i) end
    end
    -- A search computes the same seconds.
    local plan = { seq = 4096, micro_batches = 2, stack = "megatron", data_seconds = device + 1, stall_seconds = 3 }
    local swept = require("ett.search.sweep").new { cluster = "dgx_h100", plan = plan, over = { tp = { 1 } },
      model = require("ett.model").new("llama", { layers = 8, hidden = 4096, heads = 32, vocab = 32000 }) }
    assert.near(device + 4, swept.rows[1].step_seconds, 1e-9)
    assert.matches("waiting +the devices wait 1.000 s for data, 3.000 s for their hosts", tostring(step(plan)))
    assert.matches("'data_seconds' must be a number of at least 0, got -1",
      select(2, pcall(step, { data_seconds = -1 })).message, 1, true)
  end)
end)

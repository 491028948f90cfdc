--- Power, energy, carbon dioxide and price of a step: by hand, on devices whose kernels take known times.
local cluster_parts = require "cluster_parts"
local estimate = require "ett.step.estimate"
local energy = require "ett.step.energy"
local exactly = require "exactly"
local merged = require "ett.base.merged"
local model_module = require "ett.model"

local model = model_module.new("llama", { layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 1024 })

--- A cluster on which every operator takes `seconds`.
local function run(power, seconds, plan, more)
  local cluster = merged({ name = "flat", path = "spec", gpus_per_node = 4, device = { name = "D", peak_flops = {
    bf16 = 1e14 }, memory_bytes = 80e9, memory_bandwidth = 1e12, power_watts = 500, power = power } }, more)
  local profile = { operator = function()
    return exactly(seconds)
  end, collective = function()
    return exactly(1e-3)
  end }
  local full = merged({ seq = 512, micro_batches = 4, fused_accumulation = true }, plan)
  return estimate.new { model = model, cluster = cluster, profile = profile, plan = full }
end

describe("the power of a device", function()
  it("is the idle power without work, and the power limit under full load", function()
    assert.near(120, run({ idle_watts = 120, compute_watts = 0, memory_watts = 0, source = "spec" }, 1e-3).device_watts,
      1e-9)
    local e = run({ idle_watts = 100, compute_watts = 1e9, memory_watts = 1e9, source = "spec" }, 1e-3)
    assert.near(500, e.device_watts, 1e-6)
  end)

  it("grows with the FLOPs per second; without recomputation these are the model's", function()
    -- Not at the limit, so that watts are linear in FLOPs: 100 + 1000 W at the peak.
    local e = run({ idle_watts = 100, compute_watts = 1000, memory_watts = 0, source = "spec" }, 5e-3)
    local floor = 1000 * e.model_flops_per_step / e.step_seconds / 1e14
    assert.is_true(e.device_watts > 100 + floor and e.device_watts < 100 + 1.35 * floor) -- attention's, norms'
    local again = run({ idle_watts = 100, compute_watts = 1000, memory_watts = 0, source = "spec" }, 5e-3,
      { recompute = "full" })
    assert.is_true(again.kwh_per_step > e.kwh_per_step)
  end)

  it("is that of half the rates where every kernel has half the rates of its data type", function()
    local schema = require "ett.base.schema"
    local peaks = { bf16 = 1e14, fp8 = 2e14 }
    local function with(measure, power)
      return function(plan, of)
        local device = { name = "D", peak_flops = peaks, memory_bytes = 80e9, memory_bandwidth = 1e12,
          power_watts = 500, power = power }
        local profile = { operator = function(_, name, shape, dtype, pass)
          local op = require("ett.operator").get(name)
          -- Products of fp8 plans are quantised, except the head; everything else runs in 16 bits.
          local own = (op.family ~= "gemm" or name == "lm_head") and schema.wide(dtype) or dtype
          return exactly(pass == "update" and 0.0 or 2 * measure(op, shape, own, pass))
        end, collective = function() end }
        local full = merged({ seq = 512, micro_batches = 4, fused_accumulation = true }, plan)
        return estimate.new { model = of or model, profile = profile, plan = full,
          cluster = { name = "flat", path = "spec", gpus_per_node = 4, device = device } }.device_watts
      end
    end
    local by_flops = with(function(op, shape, dtype, pass) return op.flops(shape, pass) / peaks[dtype] end,
      { idle_watts = 100, compute_watts = 400, memory_watts = 0, source = "spec" })
    local by_bytes = with(function(op, shape, dtype, pass) return op.bytes(shape, dtype, pass) / 1e12 end,
      { idle_watts = 100, compute_watts = 0, memory_watts = 400, source = "spec" })
    for i, plan in ipairs { { dtype = "bf16" }, { dtype = "fp8" }, { lora_rank = 16 }, { frozen_layers = 2 },
      { fused_accumulation = false }, { stack = "plain:autocast" } } do -- lines without an operator
      assert.near(300, by_flops(plan), 1e-6, i)
      assert.near(300, by_bytes(plan), 1e-6, i)
    end
    -- Backward passes that repeat a forward pass.
    local mamba = model_module.new("hybrid", { layers = 2, hidden = 512, vocab = 1024, heads = 1, head_dim = 1,
      layer_types = { "mamba" } })
    assert.near(300, by_flops({}, mamba), 1e-6)
    assert.near(300, by_bytes({}, mamba), 1e-6)
  end)

  it("uses shares of the H200's for a device without coefficients, whatever its limit", function()
    local power = energy.of_device { power_watts = 700 }
    local h200 = require("ett.profile.device").get("h200_sxm").power
    for name in pairs(energy.shares) do assert.near(h200[name], power[name], 1) end
    assert.is_nil(energy.of_device {})
    local limited = energy.of_device { power_watts = 700, power_limit_watts = 300 }
    assert.same({ 300, power.idle_watts, power.compute_watts }, { limited.limit_watts, limited.idle_watts,
      limited.compute_watts })
    assert.equal(100, energy.of_device({ power_watts = 700, power_limit_watts = 100 }).idle_watts)
  end)
end)

describe("the energy of a step", function()
  local power = { idle_watts = 120, compute_watts = 0, memory_watts = 0, source = "spec" }

  it("is the power of devices and nodes, times PUE, times seconds; the grid gives carbon dioxide", function()
    local e = run(power, 1e-3, { dp = 8, pue = 1.25, grams_co2_per_kwh = 100 }, { power = { node_watts = 400,
      source = "spec" } })
    local kwh = (120 + 400 / 4) * 8 * 1.25 * e.step_seconds / 3.6e6
    assert.near(kwh, e.kwh_per_step, 1e-12 * kwh)
    assert.near(0.1 * kwh, e.co2_kg_per_step, 1e-12 * kwh)
    -- Idle devices and nodes draw power in proportion to time; the power of devices has its own error.
    local function away(seconds) return math.sqrt(((seconds / e.step_seconds - 1) * kwh) ^ 2
      + (energy.power_error * 120 / 220 * kwh) ^ 2) end
    assert.near(kwh + away(e.high_seconds), e.high_kwh_per_step, 1e-9 * kwh)
    assert.near(kwh - away(e.low_seconds), e.low_kwh_per_step, 1e-9 * kwh)
    -- A longer step does not change the joules of work, and no device draws more than its limit of 500 W.
    for _, of in ipairs { { 3000, 1e-3 }, { 1e9, 1e-3 } } do
      local busy = run({ idle_watts = 120, compute_watts = of[1], memory_watts = of[1], source = "spec" }, of[2],
        { dp = 8, pue = 1 }, { power = { node_watts = 400, source = "spec" } })
      local own, to_kwh = busy.device_watts, 8 * busy.step_seconds / 3.6e6
      local up = math.min(energy.power_error * own, 500 - own)
      assert.is_true(own > 125)
      assert.equal(of[1] == 1e9, up == 500 - own)
      assert.near(busy.kwh_per_step + to_kwh * math.sqrt((220 * (busy.high_seconds / busy.step_seconds - 1)) ^ 2
        + up ^ 2), busy.high_kwh_per_step, 1e-9 * busy.kwh_per_step)
      assert.near(busy.kwh_per_step - to_kwh * math.sqrt((220 * (busy.low_seconds / busy.step_seconds - 1)) ^ 2
        + (energy.power_error * own) ^ 2), busy.low_kwh_per_step, 1e-9 * busy.kwh_per_step)
    end
    assert.matches("kWh %[%d[%d.e-]*, %d[%d.e-]*%] per step", tostring(e))
    local own = run(power, 1e-3, { dp = 8 }, { power = { node_watts = 400, pue = 1.1, grams_co2_per_kwh = 20,
      source = "spec" } })
    assert.near((120 + 400 / 4) * 8 * 1.1 * own.step_seconds / 3.6e6, own.kwh_per_step, 1e-12)
    assert.near(0.02 * own.kwh_per_step, own.co2_kg_per_step, 1e-12)
    local assumed = run(power, 1e-3)
    assert.near((120 + 0.5 * 500) * 1.56 * assumed.step_seconds / 3.6e6, assumed.kwh_per_step, 1e-12)
  end)

  it("is that of the device's own kernels while the host updates", function()
    local streams = { idle_watts = 100, compute_watts = 0, memory_watts = 400, source = "spec" }
    for _, plan in ipairs { {}, { pp = 2, dp = 2 } } do
      local function joules(offloaded)
        plan.offload_optimizer = offloaded
        local e = run(streams, 1e-3, plan, { host = { bandwidth = 2e7, source = "spec" } })
        local kernels = 0.0
        for _, s in ipairs(e.stages) do kernels = kernels + s.optimizer_kernel_seconds / #e.stages end
        return (e.device_watts - 100) * e.step_seconds, e.step_seconds, kernels
      end
      local kept, kept_seconds, kernels = joules(0)
      for _, share in ipairs { 0.5, 1 } do
        local away, away_seconds = joules(share)
        assert.is_true(away_seconds > 2 * kept_seconds)
        assert.near(kept - share * kernels * 400, away, 1e-9 * kept)
      end
    end
  end)

  it("is that of the mean rank: ranks with fewer tokens, or fewer pairs of a causal mask, wait", function()
    local mixtral = model_module.new("mixtral", { layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 1024,
      experts = 16, top_k = 2 })
    local device = { name = "D", peak_flops = { bf16 = 1e14 }, memory_bytes = 80e9, memory_bandwidth = 1e12,
      power_watts = 500, power = { idle_watts = 100, compute_watts = 400, memory_watts = 0, source = "spec" } }
    local profile = { operator = function(_, name, shape, _, pass) -- half the peak rate
      return exactly(pass == "update" and 0.0 or 2 * require("ett.operator").get(name).flops(shape, pass) / 1e14)
    end, collective = function()
      return exactly(1e-4)
    end }
    local function joules(of, plan)
      local full = merged({ seq = 4096, micro_batches = 4, fused_accumulation = true }, plan)
      local e = estimate.new { model = of, profile = profile, plan = full, cluster = { name = "flat", path = "spec",
        gpus_per_node = 8, device = device } }
      return (e.device_watts - 100) * e.step_seconds, e
    end
    local function experts(more)
      more.dp, more.ep = 8, 8
      return joules(mixtral, more)
    end
    local even, balanced = experts {}
    local skewed, e = experts { expert_skew = 1 }
    assert.is_true(e.step_seconds > 1.5 * balanced.step_seconds)
    assert.near(even, skewed, 1e-3 * even) -- tokens are whole numbers
    -- A stack whose loss has the soft cap of the logits in its kernel lowers one operator fewer.
    local soft = model_module.new("mixtral", { layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 1024,
      experts = 16, top_k = 2, logit_softcap = true })
    local alike = { stack = "megatron:graphs", dp = 8, ep = 8 }
    local before = joules(soft, alike)
    alike.expert_skew = 1
    assert.near(before, joules(soft, alike), 1e-3 * before)
    -- A list of repeated layers divides kinds of layers.
    local mixed = model_module.new("mixtral", { layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 1024,
      experts = 16, top_k = 2, first_dense_layers = 2 })
    local listed = { dp = 8, ep = 8, recompute = "full", recompute_layer_ids = { 0 } }
    before = joules(mixed, listed)
    listed.expert_skew = 1
    assert.near(before, joules(mixed, listed), 1e-3 * before)
    -- Dropped copies take no energy, padding does.
    local half = experts { capacity_factor = 0.5 }
    local dropped, less = experts { expert_skew = 1, capacity_factor = 1 }
    assert.is_true(less.dropped_tokens_percent > 20)
    assert.near(even - 2 * (even - half) * less.dropped_tokens_percent / 100, dropped, 1e-3 * even)
    assert.near(even, experts { expert_skew = 1, capacity_factor = 1, pad_to_capacity = true }, 1e-9 * even)
    for _, plan in ipairs { { cp = 8 }, { cp = 4, recompute = "full", lora_rank = 8 } } do
      even, balanced = joules(model, plan)
      plan.cp_balanced = false
      skewed, e = joules(model, plan)
      assert.is_true(e.step_seconds > 1.1 * balanced.step_seconds)
      assert.near(even, skewed, 1e-9 * even)
    end
    -- A soft cap inside the kernel of the loss is no operator of the step.
    local capped = model_module.new("llama", { layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 1024,
      logit_softcap = true })
    local same = { joules(capped, { cp = 8, cp_balanced = false, stack = "plain" }) }
    assert.near(joules(model, { cp = 8, cp_balanced = false, stack = "plain" }), same[1], 1e-9 * same[1])
  end)

  it("has idle power in the seconds by which the mean step of unlike devices is longer", function()
    local busy = { idle_watts = 100, compute_watts = 1000, memory_watts = 400, source = "spec" }
    for _, unlike in ipairs { { slow_share = 1, slow_factor = 3 }, { rank_slowdown = { 1, 2, 1, 1 } },
      { jitter = 0.1 }, { rank_slowdown = { 0.5, 0.5, 0.5, 0.5 } } } do
      unlike.dp, unlike.pue, unlike.tokens = 4, 1.5, 1e9
      local e, even = run(busy, 5e-3, unlike), run(busy, 5e-3, { dp = 4, pue = 1.5, tokens = 1e9 })
      local more = (100 + 250) * 1.5 * 4 * (e.varied_mean_seconds - e.step_seconds) / 3.6e6
      assert.near(even.kwh_per_step + more, e.kwh_per_step, 1e-9 * e.kwh_per_step)
      assert.near(e.run_kwh, e.run_steps * e.kwh_per_step, 1e-9 * e.run_kwh)
      assert.near((e.device_watts + e.overhead_watts) * 1.5 * 4 * e.varied_mean_seconds / 3.6e6, e.kwh_per_step, 1e-12)
    end
  end)

  describe("on parts", function()
    local function kind(pue, grams, flops, bandwidth, nodes)
      local cluster = cluster_parts.kind("kind", flops or 1e15, bandwidth or 1e12, 80e9, 4e10)
      cluster.device.power_watts = 500
      cluster.power = { pue = pue, grams_co2_per_kwh = grams, node_watts = nodes, source = "spec" }
      return cluster
    end
    local function of(cluster, plan)
      local full = merged({ seq = 512, micro_batches = 4 }, plan)
      local e = estimate.new { model = model, cluster = cluster, plan = full }
      return e.pue, 1e3 * e.co2_kg_per_step / e.kwh_per_step, e
    end
    local function of_parts(first, second, plan, nodes)
      return of({ name = "both", summary = "both", source = "spec", parts = { { cluster = first, nodes = nodes or 1 },
        { cluster = second, nodes = 3 } }, links = { inter = { bandwidth_per_gpu = 4e10, bandwidth_per_node = 4e10,
        latency = 1e-6, source = "spec" } } }, plan)
    end

    it("has the PUE and the grid of the parts in use", function()
      local pue, grams, e = of_parts(kind(1.1, 50), kind(1.1, 50), { dp = 4 })
      assert.near(1.1, pue, 1e-12)
      assert.near(50, grams, 1e-9)
      local _, _, alone = of(kind(1.1, 50), { dp = 4 })
      assert.near(alone.kwh_per_step, e.kwh_per_step, 1e-9 * e.kwh_per_step)
      pue, grams = of_parts(kind(1.1, 50), kind(1.5, nil), { dp = 4 }) -- equal devices: equal shares of the energy
      assert.near((1.1 + 3 * 1.5) / 4, pue, 1e-12)
      assert.near((50 * 1.1 + 3 * 480 * 1.5) / (1.1 + 3 * 1.5), grams, 1e-9)
      pue, grams = of_parts(kind(1.1, 50), kind(1.5, nil), { dp = 1 }) -- on the first part alone
      assert.near(1.1, pue, 1e-12)
      assert.near(50, grams, 1e-9)
      pue, grams = of_parts(kind(1.1, 50), kind(1.5, nil), { dp = 4, pue = 1.2, grams_co2_per_kwh = 20 })
      assert.near(1.2, pue, 1e-12)
      assert.near(20, grams, 1e-9)
    end)

    local function check_sum(first, second)
      for _, plan in ipairs { { dp = 4 }, { dp = 2, pp = 2, rank_order = "tp-cp-ep-pp-dp" },
        { dp = 4, pp = 1, rank_map = { 3, 1, 0, 2 } }, { dp = 2, pp = 2, rank_map = { 0, 2, 3, 1 } },
        { dp = 2, pp = 2, rank_order = "tp-cp-ep-pp-dp", schedule = "chimera" } } do
        local _, _, both = of_parts(first, second, plan, 2)
        local kwh, co2, watts = 0.0, 0.0, 0.0
        for _, cluster in ipairs { first, second } do
          local _, _, alone = of(cluster, plan)
          local idle = energy.of_device(cluster.device).idle_watts
          local joules = (alone.device_watts - idle) * alone.step_seconds
          local own = idle + joules / both.step_seconds
          local share = (own + cluster.power.node_watts) * cluster.power.pue * 2 * both.step_seconds / 3.6e6
          kwh, co2, watts = kwh + share, co2 + share * cluster.power.grams_co2_per_kwh / 1e3, watts + own / 2
        end
        assert.near(watts, both.device_watts, 5e-4 * watts) -- updates have a constant part
        assert.near(kwh, both.kwh_per_step, 5e-4 * kwh)
        assert.near(co2, both.co2_kg_per_step, 5e-4 * co2)
        assert.near((both.device_watts + both.overhead_watts) * both.pue * 4 * both.step_seconds / 3.6e6,
          both.kwh_per_step, 1e-12 * kwh)
      end
    end

    it("is the sum over the parts, each with the kernels of its own devices", function()
      check_sum(kind(1.1, 50, 1e15, 2e12, 300), kind(2.0, 800, 1e14, 5e11, 100))
    end)

    it("is that sum if the part with the slowest layers has the fastest updates", function()
      check_sum(kind(1.1, 50, 1e15, 1e12, 300), kind(2.0, 800, 1e14, 4e12, 100))
    end)
  end)

  it("and the price of a run follow from its tokens, in the plan as in the argument", function()
    local e = run(power, 1e-3, { dp = 8, tokens = 1e9, price_per_device_hour = 3 }, { price_per_gpu_hour = 2 })
    assert.equal(math.ceil(1e9 / (8 * 4 * 512)), e.run_steps)
    assert.near(3 * 8 * e.run_days * 24, e.run_dollars, 1e-9)
    assert.near(e.run_steps * e.kwh_per_step, e.run_kwh, 1e-9)
    assert.near(2 * 8 * e.step_seconds / 3600,
      run(power, 1e-3, { dp = 8 }, { price_per_gpu_hour = 2 }).dollars_per_step, 1e-12)
    assert.matches("run +1 B tokens in .* days without failures .* %(%d+ steps%)\n +USD [%d.]+ .*, .* MWh %[[%d.]+, "
      .. "[%d.]+%], .* t CO2",
      tostring(e))
  end)
end)

describe("bundled clusters", function()
  it("state source and date of their price, or that they have none", function()
    local priced = 0
    for _, name in ipairs(require("ett.profile.cluster").names()) do
      local cluster = require("ett.profile.cluster").get(name)
      if cluster.price_per_gpu_hour then
        priced = priced + 1
        assert.matches("20%d%d", cluster.price_source, name)
      else
        assert.matches("^unset: ", cluster.price_source, name)
      end
    end
    assert.is_true(priced >= 7)
  end)
end)

--- Laws of estimates over many random plans: on a cluster whose every time is proportional to work,
--- and, where the law must hold whatever the profile answers, on the bundled clusters.
local cluster_module = require "ett.profile.cluster"
local estimate = require "ett.step.estimate"
local json = require "ett.json"
local random_plans = require "random_plans"
local step_core = require "step_core"
local near = require "near"
local plan_module = require "ett.plan"

local flat, proportional, generator = random_plans.flat, random_plans.profile, random_plans.generator
local llama, mixture, plans, with = random_plans.llama, random_plans.mixture, random_plans.plans, random_plans.with

local function run(p, model, link)
  return estimate.new { model = model, cluster = flat, profile = proportional(link), plan = p }
end

local function describe_plan(p) return json.encode(p) end

local function not_above(a, b, message)
  assert.is_true(a <= b * (1 + 1e-12), ("%s: %.17g is above %.17g"):format(message, a, b))
end

describe("a step's time", function()
  local dense, experts = llama(12), mixture(12)

  it("never falls when layers, micro-batches, sequence or micro-batch grow", function()
    for _, model in ipairs { dense, experts } do
      local more = model == dense and llama(18) or mixture(18)
      for _, p in ipairs(plans(16, 11, model)) do
        local before, text = run(p, model).step_seconds, describe_plan(p)
        not_above(before, run(p, more).step_seconds, "layers " .. text)
        not_above(before, run(with(p, { micro_batches = 2 * p.micro_batches }), model).step_seconds, "batches " .. text)
        not_above(before, run(with(p, { seq = 2 * p.seq }), model).step_seconds, "sequence " .. text)
        not_above(before, run(with(p, { micro_batch = 2 * p.micro_batch }), model).step_seconds, "micro-batch " .. text)
      end
    end
  end)

  it("never grows with twice the bandwidth on every link", function()
    for _, model in ipairs { dense, experts } do
      for _, p in ipairs(plans(20, 12, model)) do
        not_above(run(p, model, 2).step_seconds, run(p, model).step_seconds, describe_plan(p))
      end
    end
    local own = cluster_module.check({ name = "mine", summary = "links of one's own", source = "a spec",
      gpus_per_node = 4, device = { name = "X", peak_flops = { bf16 = 3e14, fp32 = 2e13 }, memory_bytes = 80e9,
        memory_bandwidth = 2e12, multiprocessors = 108, source = "a spec" },
      links = { intra = { name = "in", bandwidth = 2e11, source = "a spec" },
        inter = { name = "out", bandwidth_per_gpu = 1e10, bandwidth_per_node = 4e10, source = "a spec" } } },
          "mine.lua")
    for _, kind in ipairs { "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast" } do
      for _, shape in ipairs { { 1, 2 }, { 1, 4 }, { 2, 1 }, { 2, 4 }, { 16, 4 } } do
        local faster = with(own, { links = { intra = with(own.links.intra, { bandwidth = 4e11 }),
          inter = with(own.links.inter, { bandwidth_per_gpu = 2e10, bandwidth_per_node = 8e10 }) } })
        for _, bytes in ipairs { 1e3, 1e6, 1e9 } do
          local topology = { nodes = shape[1], gpus_per_node = shape[2] }
          local a = cluster_module.collective(own, kind, bytes, topology)
          local b = cluster_module.collective(faster, kind, bytes, topology)
          not_above(b.seconds, a.seconds, kind)
          assert.equal("assumed", a.provenance)
        end
      end
    end
  end)

  it("hides at most all of the communication: exposed times are at least 0", function()
    for _, model in ipairs { dense, experts } do
      for _, p in ipairs(plans(30, 13, model)) do
        local e, text = run(p, model), describe_plan(p)
        for _, s in ipairs(e.stages) do
          for _, pair in ipairs { { s.gradient_exposed_seconds, s.gradient_seconds },
            { s.gather_exposed_seconds, s.gather_seconds } } do
            assert.is_true(pair[1] >= 0, text)
            not_above(pair[1], pair[2], text)
          end
          assert.is_true(s.wait_seconds >= 0, text)
          not_above(s.end_seconds, e.step_seconds, text)
        end
        assert.is_true(e.idle_seconds >= 0 and e.bubble_percent >= 0 and e.bubble_percent < 100, text)
        local open = with(p, { overlap_gradients = false, overlap_parameters = false })
        not_above(e.step_seconds, run(open, model).step_seconds, text)
        assert.is_true(e.low_seconds <= e.step_seconds and e.step_seconds <= e.high_seconds, text)
      end
    end
  end)

  it("is the sum of lines and idle time; layers and parameters are conserved", function()
    for _, model in ipairs { dense, experts } do
      for _, p in ipairs(plans(24, 14, model)) do
        local e, seconds, percent, layers = run(p, model), 0, 0, 0
        for _, list in ipairs { e.operators, e.collectives } do
          for _, line in ipairs(list) do seconds, percent = seconds + line.seconds, percent + line.percent end
        end
        near(e.step_seconds, seconds + e.idle_seconds, describe_plan(p))
        near(100, percent + e.idle_percent, describe_plan(p))
        for _, s in ipairs(e.stages) do layers = layers + s.layers end
        assert.equal(14, layers)
        near(p.dp * p.micro_batch * p.micro_batches * p.seq / e.step_seconds, e.tokens_per_second, "tokens/s")
        near(e.tokens_per_second / (p.pp * p.tp * p.cp * p.dp), e.tokens_per_second_per_device, "per device")
        near(100 * e.model_flops_per_step / e.step_seconds / e.devices / flat.device.peak_flops[p.dtype], e.mfu_percent,
          "MFU")
      end
    end
  end)

  it("of model FLOPs depends on the tokens only, not on the layout", function()
    for _, p in ipairs(plans(30, 15, dense)) do
      local one = with(p, { pp = 1, tp = 1, dp = 1, cp = 1, schedule = "1f1b", zero = 0, sequence_parallel = false })
      one.vp = nil
      near(p.dp * run(one, dense).model_flops_per_step, run(p, dense).model_flops_per_step, describe_plan(p))
    end
  end)

  it("grows by one forward pass of the repeated layers under full recomputation", function()
    local p = { seq = 2048, micro_batches = 6 }
    local none, full = run(p, dense), run(with(p, { recompute = "full" }), dense)
    near(full.stages[1].recompute_seconds, full.step_seconds - none.step_seconds, "step")
    local a, b = run(p, llama(1)).stages[1].forward_seconds, run(p, llama(2)).stages[1].forward_seconds
    near(12 * (b - a), full.stages[1].recompute_seconds, "a layer's forward, 12 times")
  end)

  it("of groups of layers is between full recomputation with early stop and without", function()
    local stacks, changed = require "ett.operator.stack", 0
    for _, name in ipairs(stacks.names()) do
      for i, p in ipairs(plans(4, 18, experts)) do
        local model = i % 2 == 0 and experts or dense
        local function of(stops, layers)
          local q = with(p, { recompute = "full", recompute_layers = layers, ep = model == dense and 1 or p.ep,
            recompute_method = layers and "uniform" or nil, stack = ("%s:stops_early=%s"):format(name, stops) })
          if #plan_module.violations(q, model, "dgx_h100") > 0 then return nil end
          return estimate.new { model = model, cluster = "dgx_h100", profile = false, plan = q, interval = false }
        end
        local early, whole, text = of(true), of(false), name .. " " .. describe_plan(p)
        if early then
          for _, layers in ipairs { 1, 2, 3, 12 } do
            local group = of(true, layers)
            not_above(early.step_seconds, group.step_seconds, text)
            not_above(group.step_seconds, whole.step_seconds, text)
            near(of(false, layers).step_seconds, whole.step_seconds, text)
            if layers == 1 then near(early.step_seconds, group.step_seconds, text) end
            changed = changed + (group.step_seconds > early.step_seconds * (1 + 1e-6) and 1 or 0)
          end
        end
      end
    end
    assert.is_true(changed > 50, ("%d groups"):format(changed))
  end)

  it("falls with 8-bit products, while the stored weights stay the same", function()
    for _, name in ipairs { "dgx_h100", "dgx_b200" } do
      local wide_model = require("ett.model").new("llama", { layers = 4, hidden = 8192, heads = 64, vocab = 32000 })
      local function on(dtype) -- small products lose more by quantisation than they win
        return estimate.new { model = wide_model, cluster = name, plan = { seq = 4096, micro_batches = 4, tp = 2,
          dtype = dtype } }
      end
      local wide, narrow = on "bf16", on "fp8"
      assert.is_true(narrow.step_seconds < wide.step_seconds)
      assert.equal(wide.stages[1].weight_bytes, narrow.stages[1].weight_bytes)
    end
  end)
end)

describe("memory", function()
  it("under gpipe is never less than under 1f1b, with recomputation and ZeRO never more than without", function()
    local model = llama(12)
    for _, p in ipairs(plans(20, 16, model)) do
      p.vp, p.schedule = nil, "1f1b"
      local m, text = run(p, model).memory_bytes, describe_plan(p)
      not_above(m, run(with(p, { schedule = "gpipe" }), model).memory_bytes, text)
      not_above(run(with(p, { recompute = "full" }), model).memory_bytes,
        run(with(p, { recompute = "none" }), model).memory_bytes, text)
      not_above(run(with(p, { zero = 1 }), model).memory_bytes, run(with(p, { zero = 0 }), model).memory_bytes, text)
    end
  end)
end)

describe("schedules", function()
  it("interleaved with one chunk a stage is 1f1b", function()
    local random = generator(5)
    for _ = 1, 40 do
      local stages = random { 1, 2, 3, 5 }
      local p = { stages = stages, chunks = 1, micro_batches = stages * random { 1, 2, 4 },
        blocking_sends = random { true,
        false }, forward = {}, backward = {}, send_forward = {}, send_backward = {} }
      for i = 1, stages do
        p.forward[i], p.backward[i] = random { 1, 2, 3.5 }, random { 2, 4.25, 5 }
        p.send_forward[i], p.send_backward[i] = random { 0, 0.5 }, random { 0, 0.25 }
      end
      local a, b = step_core.pipeline(with(p, { schedule = "1f1b" })),
        step_core.pipeline(with(p, { schedule = "interleaved" }))
      assert.equal(a.makespan_seconds, b.makespan_seconds)
      assert.same(a.busy_seconds, b.busy_seconds)
      assert.same(a.peak_in_flight, b.peak_in_flight)
    end
  end)
end)

describe("the table", function()
  it("prints the numbers of the JSON", function()
    local random = generator(21)
    for _, p in ipairs(plans(20, 17, llama(12))) do
      p.dtype = "bf16"
      local e = estimate.new { model = llama(12), cluster = random { "perlmutter", "vista", "dgx_h100" }, plan = p }
      local data, text = json.decode(json.encode(getmetatable(e).__json(e))), tostring(e)
      local function row(name)
        for line in text:gmatch "[^\n]+" do
          if line:sub(1, #name) == name and line:sub(#name + 1,
            #name + 1):match "%s" then return line:sub(#name + 1) end
        end
        error("no line " .. name .. " in\n" .. text)
      end
      for _, list in ipairs { data.operators, data.collectives } do
        for _, line in ipairs(list) do
          local name = "  " .. line.name .. (line.group and (" (%s)"):format(line.group) or "")
          local ms, percent, from = row(name):match "^%s+([%d%.]+)%s+([%d%.]+)%s+(%a+)"
          assert.equal(("%.3f"):format(line.seconds * 1e3), ms, name)
          assert.equal(("%.1f"):format(line.percent), percent, name)
          assert.equal(line.provenance or from, from, name)
        end
      end
      local function sum(stage, ...)
        local total = 0.0
        for _, name in ipairs { ... } do total = total + stage[name] end
        return total
      end
      for unit, columns in pairs {
        ms = { forward = { "forward_seconds" }, backward = { "backward_seconds" }, recompute = { "recompute_seconds" },
          gradients = { "gradient_exposed_seconds" }, update = { "optimizer_seconds", "gather_exposed_seconds" } },
        GB = { weights = { "weight_bytes" }, gradients = { "gradient_bytes" }, optimizer = { "optimizer_bytes" },
          activations = { "activation_bytes" }, total = { "memory_bytes" },
          temporary = { "temporary_bytes", "working_bytes", "update_bytes", "fragment_bytes" },
          software = { "cached_bytes", "workspace_bytes", "communicator_bytes", "context_bytes" } },
      } do
        local head, body = text:match("stage, " .. unit .. " +layers ([^\n]+)\n(.-)\n\n")
        local names, seen = {}, 0
        for name in head:gmatch "%S+" do names[#names + 1] = name end
        for first, last, cells in body:gmatch "  (%d+)%-?(%d*) ([^\n]+)" do
          for i = tonumber(first), tonumber(last) or tonumber(first) do
            local stage, values = data.stages[i], {}
            seen = seen + 1
            for cell in cells:gmatch "%S+" do values[#values + 1] = cell end
            assert.equal(("%d"):format(stage.layers), table.remove(values, 1))
            for k, name in ipairs(names) do
              local value = sum(stage, table.unpack(columns[name]))
              assert.equal(unit == "ms" and ("%.3f"):format(value * 1e3) or ("%.2f"):format(value / 1e9), values[k])
            end
          end
        end
        assert.equal(#data.stages, seen)
        for name, fields in pairs(columns) do
          if not (" " .. head .. " "):find(" " .. name .. " ", 1, true) then
            for _, stage in ipairs(data.stages) do assert.equal(0, sum(stage, table.unpack(fields)), name) end
          end
        end
      end
      assert.matches(("%.0f tokens/s, %.1f per device"):format(data.tokens_per_second,
        data.tokens_per_second_per_device),
        text, 1, true)
      assert.equal(("%.1f %%"):format(data.mfu_percent), row("MFU"):match "^%s+(.*)$")
    end
  end)
end)

describe("topologies without samples", function()
  it("are timed from the links and marked as assumed", function()
    local function provenance(cluster, plan)
      local e, found = estimate.new { model = llama(12), cluster = cluster, plan = plan }, {}
      for _, line in ipairs(e.collectives) do found[line.name .. " " .. line.group] = line.provenance end
      return found
    end
    local base = { seq = 2048, micro_batches = 2 }
    local sampled = provenance("perlmutter", with(base, { tp = 4 }))["all_reduce tp"]
    assert.is_true(sampled ~= "assumed")
    assert.equal("assumed", provenance("perlmutter", with(base, { dp = 256 }))["all_reduce dp"])
    assert.equal("assumed", provenance("dgx_h100", with(base, { dp = 256 }))["all_reduce dp"])
    assert.equal("assumed", provenance("vista", with(base, { cp = 16 }))["all_gather cp"])
    assert.equal("calibrated", provenance("dgx_h100", with(base, { tp = 8 }))["all_reduce tp"])
  end)
end)

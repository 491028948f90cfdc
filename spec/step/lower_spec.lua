--- Lowering: properties of an operator come from the fields of its file, not from its name.
local command = require "command"
local estimate = require "ett.step.estimate"
local exactly = require "exactly"
local find = require "ett.base.find"
local host = require "ett.host"
local lfs = require "lfs"
local lower = require "ett.step.lower"
local model_module = require "ett.model"
local timeline = require "ett.step.timeline"

local copies = { expert_linear1 = "my_moe_up", expert_linear2 = "my_moe_down" }

local function mixture()
  return model_module.new("mixtral", { layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 1000, experts = 8,
    top_k = 2 })
end

local function run(model, profile, plan)
  plan.seq, plan.micro_batches = 512, 4
  return estimate.new { model = model, cluster = "perlmutter", profile = profile, plan = plan }
end

describe("collectives of equal bytes beside equal products", function()
  it("are told apart by how they overlap", function()
    local links = { intra = { bandwidth = 450e9, source = "x" },
      inter = { bandwidth_per_gpu = 50e9, bandwidth_per_node = 400e9, source = "x" } }
    local e = require("ett.step.estimate").new {
      model = require("ett.model").list({ "rms_norm", "linear_qkv", "flash_attention", "linear_proj", "residual_add",
        "rms_norm", "linear_up", "gelu", "linear_down", "residual_add" },
        { layers = 2, hidden = 4096, heads = 32, ffn = 16384, vocab = 32000 }),
      cluster = { name = "c", summary = "x", source = "x", gpus_per_node = 8, links = links,
        device = { name = "X1", source = "x", memory_bytes = 80e9, peak_flops = { bf16 = 1e15 },
          memory_bandwidth = 3e12, multiprocessors = 100 } },
      plan = { tp = 8, seq = 8192, micro_batches = 1, sequence_parallel = true, overlap_tensor = true }, units = true }
    local exposed = {}
    for _, o in ipairs(e.lowered.operations) do
      if o.name == "all_gather" and o.backward and o.beside_seconds > 0 then
        exposed[#exposed + 1] = o.backward.seconds / o.backward.source.seconds
      end
    end
    table.sort(exposed)
    assert.near(0, exposed[1], 1e-9) -- the repeated gather of a product's input overlaps wholly
    assert.is_true(exposed[#exposed] >= 1 / 8) -- a gather in pieces leaves its first one
  end)
end)

describe("quantised products", function()
  it("are those that the stack names: times, stored inputs, stored weights and power", function()
    local model = model_module.new("mixtral", { layers = 2, hidden = 4096, heads = 32, ffn = 14336, vocab = 32000,
      experts = 8, top_k = 2 })
    local function run_with(which, dtype, seconds)
      local asked = {}
      seconds = seconds or 1e-3
      local profile = { operator = function(_, name, _, own)
        asked[name] = own
        return exactly(seconds)
      end, collective = function()
        return exactly(0)
      end }
      local e = estimate.new { model = model, cluster = "dgx_h100", profile = profile, units = true,
        plan = { seq = 4096, micro_batches = 1, dp = 8, ep = 8, dtype = dtype,
          stack = "megatron:expert_seconds=1e-4:quantised_products=" .. which } }
      local of = {}
      for _, o in ipairs(e.lowered.operations) do of[o.name] = o end
      return asked, of, e
    end
    local _, wide, at_16 = run_with("all", "bf16")
    local _, narrow, at_8 = run_with("all", "fp8")
    for which, quantised in pairs { dense = "linear_qkv", experts = "expert_linear1" } do
      local asked, of, e = run_with(which, "fp8")
      for _, name in ipairs { "linear_qkv", "expert_linear1" } do
        local like = name == quantised and narrow or wide
        assert.equal(name == quantised and "fp8" or "bf16", asked[name])
        for _, field in ipairs { "activation_bytes", "quantised_bytes", "dtype" } do
          assert.equal(like[name][field], of[name][field], name .. field)
        end
      end
      assert.equal("bf16", asked.lm_head)
      assert.is_true(e.device_watts ~= at_16.device_watts and e.device_watts ~= at_8.device_watts)
    end
    assert.is_true(narrow.expert_linear1.activation_bytes < wide.expert_linear1.activation_bytes)
    assert.is_true(narrow.expert_linear1.quantised_bytes > 0)
    local function launches(which, dtype)
      local sum = 0.0
      for _, o in ipairs(select(3, run_with(which, dtype, 0)).lowered.operations) do
        sum = sum + (o.name == "host" and o.forward.seconds or 0)
      end
      return sum
    end
    assert.equal(launches("all", "bf16"), launches("dense", "fp8")) -- quantised experts have kernels of their own
    assert.equal(launches("all", "fp8"), launches("experts", "fp8"))
    assert.is_true(launches("dense", "fp8") < launches("experts", "fp8"))
  end)
end)

describe("an exchange of tokens that are sent once to a node", function()
  it("occupies the links of its slower part: inside the node, or between nodes", function()
    local model = model_module.new("mixtral", { layers = 2, hidden = 1024, heads = 8, ffn = 2048, vocab = 32000,
      experts = 16, top_k = 4 })
    local function link(node, network, more)
      local tiers = { { name = "node", size = 8, bandwidth = node, source = "x" },
        { name = "leaf", size = 16, bandwidth = network, source = "x" }, more }
      local cluster = { name = "c", summary = "x", source = "x", tiers = tiers,
        device = { name = "D", source = "x", peak_flops = { bf16 = 1e14 }, memory_bytes = 80e9,
          memory_bandwidth = 1e12 } }
      local e = estimate.new { model = model, cluster = cluster, profile = false, units = true,
        plan = { seq = 1024, micro_batches = 1, ep = 16, dp = 16, deduplicate_tokens = true } }
      for _, o in ipairs(e.lowered.operations) do
        if o.name == "all_to_all" then return o.link, o.lanes end
      end
    end
    assert.same({ "node", "node" }, { link(1e9, 50e9) })
    assert.same({ "network", "network" }, { link(400e9, 50e9) })
    local spine = { name = "spine", bandwidth = 50e9, source = "x" }
    assert.same({ "links of node", { 1, 0, 0 } }, { link(1e9, 50e9, spine) })
    assert.equal("links of leaf", (link(400e9, 50e9, spine)))
  end)
end)

describe("a gather of operands under sequence parallelism", function()
  it("has the type of the product behind it; that of the embedding's gradient and of the head has 16 bits", function()
    local model = model_module.new("mixtral", { layers = 2, hidden = 1024, heads = 8, ffn = 2048, vocab = 32000,
      experts = 4, top_k = 2, shared_experts = 1 })
    -- Layer's kind and pass -> bytes of a value of each gather.
    local function gathered(dtype, which)
      local e = estimate.new { model = model, cluster = "dgx_h100", profile = false, units = true,
        plan = { seq = 1024, micro_batches = 1, tp = 2, ep = 2, dp = 2, sequence_parallel = true, dtype = dtype,
          stack = "megatron:quantised_products=" .. which } }
      local found = {}
      for _, kind in ipairs(e.lowered.kinds) do
        for _, entry in ipairs(kind.order) do
          local o = e.lowered.operations[entry[1]]
          if o.name == "all_gather" and o.group == "tp" and o.bytes <= 2 * 1024 * 1024 then -- less than of two copies
            local id = kind.name .. (o.forward and " forward" or " backward")
            found[id] = (found[id] or "") .. ("%g "):format(o.bytes / 1024 / 1024)
          end
        end
      end
      return found
    end
    local wide, narrow = gathered("bf16", "all"), gathered("fp8", "all")
    assert.same({ ["embedding backward"] = "2 ", ["sparse forward"] = "2 2 ", ["sparse backward"] = "2 2 2 2 ",
      ["head forward"] = "2 ", ["head backward"] = "2 " }, wide)
    assert.same({ ["embedding backward"] = "2 ", ["sparse forward"] = "1 1 ", ["sparse backward"] = "1 1 1 1 ",
      ["head forward"] = "2 ", ["head backward"] = "2 " }, narrow)
    assert.same(wide, gathered("fp8", "experts"))
    assert.same(narrow, gathered("fp8", "dense"))
  end)
end)

describe("a split backward pass", function()
  it("delays weight gradients of products and lookups and their accumulation, but not norms", function()
    local cost = { rms_norm = 1, residual_add = 16, embedding = 2, linear_qkv = 4 } -- accumulation: as residual_add
    local profile = {
      operator = function(_, name, _, _, pass) return exactly(pass == "backward" and (cost[name] or 0) or 0) end,
      collective = function() return exactly(0) end,
    }
    local model = model_module.new("llama", { layers = 2, hidden = 512, heads = 8, ffn = 1024, vocab = 1000 })
    local e = estimate.new { model = model, cluster = "perlmutter", profile = profile, units = true,
      plan = { seq = 512, micro_batches = 4, pp = 2, schedule = "zb_h1" } }
    local seconds = { F = 0, B = 0, W = 0 }
    for _, unit in ipairs(e.units[1]) do
      if unit[2] == 1 then seconds[unit[1]] = seconds[unit[1]] + unit.seconds end
    end
    assert.near(2 + 16 + 4 / 2 + 16, seconds.W, 1e-9) -- embedding with its accumulation, one layer with its own
    assert.near(2 * 1 + 4 / 2 + 2 * 16, seconds.B, 1e-9)
    local kept
    for _, unit in ipairs(timeline.of(e).stages[1].units) do
      local sum = 0
      for _, part in ipairs(unit.parts) do sum = sum + part.seconds end
      assert.near(unit.seconds, sum, 1e-9)
      for _, part in ipairs(unit.parts) do kept = kept or unit.kind == "W" and part.name == "gradient_accumulation" end
    end
    assert.is_true(kept)
  end)
end)

describe("waits for the launches of the host in a split backward pass", function()
  local function run_of(schedule, seq, launch, slow)
    return estimate.new { cluster = "dgx_h100", units = true,
      model = model_module.new("llama", { layers = 8, hidden = 512, heads = 8, ffn = 1024, vocab = 1000 }),
      plan = { seq = seq, micro_batches = 16, pp = 4, schedule = schedule, rank_slowdown = slow,
        stack = "plain:graphs=false:launch_seconds=" .. launch } }
  end

  -- Seconds of the units of a stage of two layers, those of their waits for the host, and their launches. The first
  -- stage has the embedding, too.
  local function units(stage, ...)
    local e, seconds, waits, launches = run_of(...), {}, {}, { B = 0, W = 0 }
    for _, unit in ipairs(timeline.of(e).stages[stage].units) do
      local sum, waited = 0, 0
      for _, part in ipairs(unit.parts) do
        sum, waited = sum + part.seconds, waited + (part.name == "host" and part.seconds or 0)
      end
      assert.near(unit.seconds, sum, 1e-12)
      seconds[unit.kind], waits[unit.kind] = unit.seconds, waited
    end
    for place, layers in pairs { stage == 1 and 1 or 0, 2 } do
      for index, n in pairs(e.lowered.kinds[place].uses) do
        local o = e.lowered.operations[index]
        local runs = o.kind == "operator" and o.name ~= "host" and not (o.operator and o.operator.joins) and 2 * n or 0
        launches.B = launches.B + layers * runs * (1 - o.weight_share)
        launches.W = launches.W + layers * runs * o.weight_share
      end
    end
    return seconds, waits, launches
  end

  it("are those of each unit's own launches", function()
    for stage = 1, 2 do
      local whole, own, _, launches = units(stage, "1f1b", 512, 1e-3), units(stage, "zb_h1", 512, 1e-3)
      assert.is_true(launches.W >= 8 and launches.B > launches.W)
      assert.near(1e-3 * launches.W, own.W, 1e-9)
      assert.near(1e-3 * launches.B, own.B, 1e-9)
      assert.near(own.B + own.W, whole.B, 1e-9)
    end
  end)

  it("are none in a unit whose kernels take longer", function()
    local own, waits, launches = units(2, "zb_h1", 131072, 1e-3) -- attention fills the unit of input gradients
    assert.is_true(own.B > 1e-3 * launches.B)
    assert.near(0, waits.B, 1e-12)
    assert.near(1e-3 * launches.W, own.W, 1e-9)
    local _, together = units(2, "1f1b", 131072, 1e-3)
    assert.near(0, together.B, 1e-12)
  end)

  it("are shorter on slow devices, as each unit's kernels take longer", function()
    local slow = { 3, 3, 3, 3 }
    local plain, slowed = run_of("zb_h1", 512, 1e-3), run_of("zb_h1", 512, 1e-3, slow)
    assert.near(plain.step_seconds, slowed.varied_p50_seconds, 0.02 * plain.step_seconds) -- but for the update
    plain, slowed = run_of("zb_h1", 512, 0), run_of("zb_h1", 512, 0, slow)
    assert.is_true(slowed.varied_p50_seconds > 2.5 * plain.step_seconds)
  end)

  it("have the interval of launches of 0.5 to 1.5 times the time, also where the device waits for none", function()
    local function waits(launch, name)
      local e, sums, line = run_of("zb_h1", 2048, launch), { forward = 0.0, backward = 0.0, split = 0.0 }, nil
      for _, o in ipairs(e.lowered.operations) do
        for pass, sum in pairs(o.name == "host" and sums or {}) do
          sums[pass] = sum + (o[pass] and o[pass][name or "seconds"] or 0.0)
        end
      end
      for _, l in ipairs(e.operators) do line = line or l.name == "host" and l.seconds or nil end
      return sums, line
    end
    for _, launch in ipairs { 1e-6, 2e-6, 3e-6, 4e-6, 1e-3 } do
      for pass, most in pairs(waits(launch, "high_seconds")) do
        assert.near(waits(1.5 * launch)[pass], most, 1e-15)
        assert.near(waits(0.5 * launch)[pass], waits(launch, "low_seconds")[pass], 1e-15)
      end
    end
    local none, line = waits(2e-6)
    assert.is_true(none.backward == 0 and waits(2e-6, "high_seconds").backward > 0)
    assert.is_nil(line)
  end)
end)

describe("PyTorch's collectives along the sequence", function()
  -- The collectives of a layer over tensor ranks: { name, bytes, seconds, whether they are in the backward pass,
  -- whether a product overlaps them }.
  local function collectives(stack, plan)
    local e = estimate.new { cluster = "dgx_h100", interval = false, units = true,
      model = model_module.new("llama", { layers = 4, hidden = 4096, heads = 32, ffn = 14336, vocab = 32000 }),
      plan = require("ett.base.merged")({ seq = 4096, micro_batches = 2, micro_batch = 2, tp = 8, stack = stack,
        sequence_parallel = true }, plan) }
    local list = {}
    for _, kind in ipairs(e.lowered.kinds) do
      for _, item in ipairs(kind.place == "middle" and #list == 0 and kind.order or {}) do
        local o = e.lowered.operations[item[1]]
        if o.group == "tp" and (plan.overlap_tensor or not o.overlapped) then -- no repeated gathers
          list[#list + 1] = { o.name, o.bytes, (o.forward or o.backward).seconds, o.backward ~= nil, o.overlapped }
        end
      end
    end
    return list
  end

  it("copy what they gather and scatter", function()
    local rate = 0.8 * require("ett.profile.cluster").get "dgx_h100".device.memory_bandwidth
    -- Beside a product, a sum reads the parts of 8 ranks and writes one. The backward pass scatters sums of several
    -- products, and those of a scale per row quantise what is gathered in 16 bits.
    local direct = ":overlaps_direct=false"
    for _, case in ipairs { { {}, 2, 2, 2 }, { { micro_batch = 1 }, 0, 2, 2 },
      { { overlap_tensor = true }, 0, 9 / 8, 2 },
      { { overlap_tensor = true, dtype = "fp8" }, 0, 9 / 8, 2 },
      { { overlap_tensor = true, dtype = "fp8_block" }, 2, 9 / 8, 2 },
      { { overlap_tensor = true }, 0, 9 / 8, 9 / 8, direct }, { { dtype = "fp8" }, 2, 2, 2 } } do
      local plan, more = case[1], case[5] or ""
      local with = collectives("torchtitan" .. more, plan)
      local without = collectives("torchtitan:copies_sequence=false" .. more, plan)
      local seen = {}
      for k, c in ipairs(with) do
        seen[c[1]] = true
        local moved = c[1] == "all_gather" and (c[5] and 0 or case[2]) or case[c[4] and 4 or 3]
        assert.near(moved * c[2] / rate, c[3] - without[k][3], 1e-12)
      end
      assert.same({ all_gather = true, reduce_scatter = true }, seen)
    end
  end)

  it("gather operands of products with a scale per tensor in 8 bits", function()
    local wide = collectives("torchtitan", {})
    for _, case in ipairs { { "torchtitan", "fp8", 0.5 }, { "torchtitan", "fp8_block", 1 },
      { "torchtitan:quantised_gathers=all", "fp8_block", 0.5 }, { "torchtitan:quantised_gathers=none", "fp8", 1 } } do
      for k, c in ipairs(collectives(case[1], { dtype = case[2] })) do
        assert.equal((c[1] == "all_gather" and case[3] or 1) * wide[k][2], c[2])
      end
    end
  end)
end)

describe("sums of inputs' gradients over tensor ranks", function()
  local times = require("ett.step.times").new(require("ett.profile.cluster").get "dgx_a100")

  -- Backward seconds of the first operation of that name in a layer.
  local function backward(hides, plan, name, hidden)
    plan.tp, plan.seq, plan.micro_batches = 8, 2048, 4
    local stack = { communication_share = 0.25, hides_sums = hides }
    for key, value in pairs(require("ett.operator.stack").get "plain") do
      if stack[key] == nil then stack[key] = value end
    end
    local model = model_module.new("gpt", { layers = 2, hidden = hidden, heads = 32, vocab = 32000 })
    local lowered = lower.program(model, require("ett.plan").new(plan, model, times.cluster), times:for_stack(stack))
    for _, kind in ipairs(lowered.kinds) do
      for _, item in ipairs(kind.place == "middle" and kind.order or {}) do
        local o = lowered.operations[item[1]]
        if o.name == name and o.backward then return o.backward.seconds end
      end
    end
  end

  it("overlap the weight-gradient product if the stack starts them first", function()
    for name, plan in pairs { all_reduce = {}, reduce_scatter = { sequence_parallel = true } } do
      local alone, product = backward(false, plan, name, 512), backward(false, plan, "linear_qkv", 512)
      assert.near(alone - product / 2, backward(true, plan, name, 512), 1e-12) -- the product is the shorter one
      plan.micro_batch = 8
      alone = backward(false, plan, name, 4096)
      assert.near(0.25 * alone, backward(true, plan, name, 4096), 1e-12) -- the communication is
    end
  end)

  -- Two sums of 3 s a layer, beside weight gradients of 2 and 4 s.
  local named = { linear_qkv = 4, linear_up = 8, flash_attention = 5 }
  local function split(schedule, hides)
    local function answer(seconds)
      return { seconds = seconds, low_seconds = 0.9 * seconds, high_seconds = 1.1 * seconds, provenance = "measured" }
    end
    local flat = { name = "flat", path = "spec", gpus_per_node = 8, device = { name = "D", memory_bytes = 80e9,
      peak_flops = { bf16 = 1e14, fp32 = 5e13 }, memory_bandwidth = 1e12 } }
    return estimate.new { cluster = flat, units = true, profile = {
      operator = function(_, name, _, _, pass) return answer(pass == "backward" and named[name] or 0) end,
      collective = function(_, kind, bytes) return answer(kind == "all_reduce" and bytes > 1e6 and 3 or 0) end },
      model = model_module.new("gpt", { layers = 8, hidden = 512, heads = 8, vocab = 1024 }),
      plan = { seq = 2048, tp = 2, pp = 4, micro_batches = 16, schedule = schedule,
        stack = "plain:hides_sums=" .. tostring(hides) } }
  end

  it("are exposed in units of input gradients, and hidden in whole backward units", function()
    local products, weights = 2 + 4 + 5, 2 + 4
    for schedule, layers in pairs { ["1f1b"] = 2, zb_h1 = 2, zb_1p = 2, dualpipe = 2 } do
      local e, seen, alone, all = split(schedule, true), {}, 0.0, 0.0
      local has_w = schedule ~= "1f1b"
      local whole = layers * (products + weights + (3 - 2) + 0)
      local wanted = { W = layers * weights, BW = whole, B = has_w and layers * (products + 2 * 3) or whole }
      for stage = 2, 3 do -- without embedding and head
        for i, u in ipairs(e.units[stage]) do
          local before, after = e.units[stage][i - 1], e.units[stage][i + 1]
          local paired = before and before.start_seconds == u.start_seconds
            or after and after.start_seconds == u.start_seconds
          if wanted[u[1]] and not paired then
            assert.near(wanted[u[1]], u.seconds, 1e-9, schedule .. " " .. u[1])
            seen[u[1]] = true
          end
        end
      end
      assert.same({ B = schedule ~= "dualpipe" and true or seen.B, W = has_w or nil,
        BW = schedule == "dualpipe" or nil }, seen)
      for _, units in ipairs(e.units) do
        for i, u in ipairs(units) do
          local before = units[i - 1]
          if not (before and before.start_seconds == u.start_seconds) then alone = alone + u.seconds / 4 end
        end
      end
      for _, list in ipairs { e.operators, e.collectives } do
        for _, line in ipairs(list) do
          all = all + (line.name ~= "optimizer" and (line.group or "tp") == "tp" and line.seconds or 0)
        end
      end
      assert.near(alone, all, 1e-6, schedule) -- lines of operators and collectives are the units' time
      for _, stage in ipairs(timeline.of(e).stages) do
        for _, unit in ipairs(stage.units) do
          local sum, hidden = 0, 0
          for _, part in ipairs(unit.parts) do sum, hidden = sum + part.seconds, hidden + part.hidden end
          if not unit.paired then assert.near(unit.seconds, sum, 1e-9) end
          if unit.work == "input" then assert.equal(0, hidden) end
        end
      end
    end
  end)

  it("take the same time under a split schedule whether the stack hides them or not", function()
    for _, schedule in ipairs { "zb_h1", "zb_2p" } do
      local hidden, exposed = split(schedule, true), split(schedule, false)
      for _, name in ipairs { "step_seconds", "bubble_percent" } do
        assert.near(exposed[name], hidden[name], 1e-9 * exposed[name], schedule .. " " .. name)
      end
    end
    assert.is_true(split("1f1b", true).step_seconds < 0.95 * split("1f1b", false).step_seconds)
    -- Waits for launches of the host are shorter where the sums are exposed.
    local model = model_module.new("llama", { layers = 8, hidden = 2048, heads = 16, ffn = 8192, vocab = 32000 })
    for _, seq in ipairs { 256, 1024, 4096 } do
      local seconds = {}
      for _, hides in ipairs { "true", "false" } do
        seconds[#seconds + 1] = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = seq, tp = 8, pp = 4,
          micro_batches = 16, schedule = "zb_h1", stack = "megatron:hides_sums=" .. hides } }.step_seconds
      end
      assert.near(seconds[2], seconds[1], 1e-9, seq)
    end
  end)

  it("share the input-gradient product with the repeated gather under a split schedule with overlap_tensor", function()
    local function answer(seconds)
      return { seconds = seconds, low_seconds = 0.9 * seconds, high_seconds = 1.1 * seconds, provenance = "measured" }
    end
    local cost = { all_gather = 3, reduce_scatter = 4 }
    local flat = { name = "flat", path = "spec", gpus_per_node = 8, device = { name = "D", memory_bytes = 80e9,
      peak_flops = { bf16 = 1e14, fp32 = 5e13 }, memory_bandwidth = 1e12 } }
    local function input_seconds(schedule)
      local e = estimate.new { cluster = flat, units = true, profile = {
        operator = function(_, name, _, _, pass) return answer(pass == "backward" and named[name] or 0) end,
        collective = function(_, kind, bytes) return answer(bytes > 1e6 and cost[kind] or 0) end },
        model = model_module.new("gpt", { layers = 8, hidden = 512, heads = 8, vocab = 1024 }),
        plan = { seq = 2048, tp = 2, pp = 4, micro_batches = 16, schedule = schedule, sequence_parallel = true,
          overlap_tensor = true } }
      for _, unit in ipairs(timeline.of(e).stages[2].units) do
        if unit.kind == "B" then
          local sum = 0
          for _, part in ipairs(unit.parts) do sum = sum + part.seconds end
          assert.near(unit.seconds, sum, 1e-9)
          return unit.seconds / 2 -- of a layer
        end
      end
    end
    -- Products of 2 and 4 s for the inputs' gradients, attention, and the gathers of the outputs' gradients, which
    -- overlap the products of linear_proj and linear_down (0 s). Repeated gathers keep 3 - 2 and 3 - 3 s. Half of a
    -- reduce-scatter, its later piece, may hide: 2 and 2 s beside the weights' gradients, or 0 and 1 s beside the rest
    -- of the inputs' gradients.
    local both = 2 + 4 + 5 + 2 * 3 + (3 - 2) + (3 - 3)
    assert.near(both + 2 + 4 + 2 * 4 - (2 + 2), input_seconds "1f1b", 1e-9)
    assert.near(both + 2 * 4 - (0 + 1), input_seconds "zb_h1", 1e-9)
  end)

  it("are exposed if the weights have no gradient", function()
    local plan = { lora_rank = 8, lora_targets = { "linear_down" } }
    assert.equal(backward(false, plan, "all_reduce", 512), backward(true, plan, "all_reduce", 512))
  end)
end)

describe("expert operators under other names", function()
  local folder
  setup(function()
    folder = command.folder()
    lfs.mkdir(folder .. "/operators")
    for name, copy in pairs(copies) do
      local text = command.read(host.root, "operators/" .. name .. ".lua")
      command.write(folder, "operators/" .. copy .. ".lua",
        (text:gsub('name = "[^"]+", aliases = {[^}]*}', ('name = "%s"'):format(copy))))
    end
    find.set_script_folder(folder)
  end)
  teardown(function()
    find.set_script_folder(nil)
    command.remove(folder)
  end)

  it("give the same parameters, memory and step", function()
    local own, renamed = mixture(), mixture()
    local replaced = 0
    for _, layer in ipairs(renamed.layers) do
      for _, entry in ipairs(layer.ops) do
        if copies[entry.op] then entry.op, replaced = copies[entry.op], replaced + 1 end
      end
    end
    assert.equal(2, replaced)
    for _, plan in ipairs { { ep = 4, dp = 4 }, { ep = 8, dp = 8, zero = 1 }, { pp = 2, ep = 2, dp = 2 } } do
      local a, b = run(own, false, plan), run(renamed, false, plan)
      assert.is_true(a.stages[1].expert_parameters > 0)
      assert.same(a.stages, b.stages)
      assert.equal(a.memory_bytes, b.memory_bytes)
      assert.equal(a.step_seconds, b.step_seconds)
      assert.equal(run(own, nil, plan).step_seconds, run(renamed, nil, plan).step_seconds)
    end
  end)
end)

describe("programs of one stack", function()
  it("share operations of equal shapes, experts and weights with shared gradient buffers included", function()
    local times = require("ett.step.times").new(require("ett.profile.cluster").get "dgx_h100")
    local function operations(more)
      local model, given, list = mixture(), { seq = 512, micro_batches = 4, dp = 4, ep = 2, stack = "megatron_moe" }, {}
      for name, value in pairs(more or {}) do given[name] = value end
      local lowered = lower.program(model, require("ett.plan").new(given, model), times)
      lowered.program:close()
      for _, o in ipairs(lowered.operations) do
        if o.operator then list[#list + 1] = o end
      end
      return list
    end
    local first, second, skewed = operations(), operations { dp = 8 }, operations { expert_skew = 1 }
    local experts, buffers = 0, 0
    for i, o in ipairs(first) do
      assert.equal(o, second[i])
      if o.experts and o.flops > 0 then
        experts = experts + 1
        assert.are_not.equal(o, skewed[i])
      end
      buffers = buffers + (o.cached_bytes > 0 and 1 or 0)
    end
    assert.is_true(experts >= 2 and buffers >= 2, experts .. " " .. buffers)
  end)
end)

describe("layers that alternate", function()
  local function alternating(layers)
    return model_module.new("llama", { layers = layers, hidden = 512, heads = 8, ffn = 1024, vocab = 1000, window = 128,
      window_every = 2 })
  end

  it("are lowered once for each kind: errors of equal layers are one error", function()
    local times = require("ett.step.times").new(require("ett.profile.cluster").get "dgx_h100")
    local p = require("ett.plan").new({ seq = 512, micro_batches = 4, stack = "megatron", fused_accumulation = false })
    local four, eight = lower.program(alternating(4), p, times), lower.program(alternating(8), p, times)
    assert.equal(10, #eight.kinds) -- embedding, eight layers, head
    assert.equal(#four.operations, #eight.operations)
    assert.equal(eight.kinds[2].uses, eight.kinds[4].uses)
    assert.not_equal(eight.kinds[2].uses, eight.kinds[3].uses)
  end)
end)

describe("a module of experts that selective recomputation repeats", function()
  it("waits for its launches, although other operators hide those of the passes", function()
    local model = model_module.new("mixtral", { layers = 3, hidden = 512, heads = 8, ffn = 1024, vocab = 1000,
      experts = 8, top_k = 2 })
    local profile = {
      operator = function(_, name) return exactly(name == "flash_attention" and 1.0 or 1e-4) end,
      collective = function() return exactly(0.0) end,
    }
    local function run_with(modules, slow)
      local e = estimate.new { model = model, cluster = "perlmutter", profile = profile, units = true, plan = {
        seq = 512, micro_batches = 4, recompute = "selective", recompute_modules = modules, rank_slowdown = slow,
        stack = "megatron:launch_seconds=1e-3:moe_launches=2:expert_seconds=1e-4" } }
      local waits = 0.0
      for _, line in ipairs(e.operators) do if line.name == "host" then waits = line.recompute_seconds end end
      return e.stages[1].recompute_seconds, waits, e
    end
    -- Router, permutation, two products, activation, return: six launches, two more for each product, and one for each
    -- of 8 experts.
    local runs, wait = 3 * 4, 6e-3 + 2 * (2e-3 + 8 * 1e-4) - 6e-4
    local seconds, waits, e = run_with { "moe" }
    assert.near(runs * (6e-4 + wait), seconds, 1e-9)
    assert.near(runs * wait, waits, 1e-9)
    local parts = 0.0
    for _, unit in ipairs(timeline.of(e).stages[1].units) do
      for _, part in ipairs(unit.kind == "B" and unit.parts or {}) do
        parts = parts + (part.name == "host" and part.pass == "forward" and part.seconds or 0.0)
      end
    end
    assert.near(runs * wait, parts, 1e-9)
    seconds, waits = run_with { "moe_act" } -- reads nothing from the device
    assert.near(runs * 1e-4, seconds, 1e-9)
    assert.equal(0.0, waits)
    -- On a slow device the wait shrinks by what the module's kernels last longer, not those of other modules.
    for _, slow in ipairs { 1, 1.01 } do
      local function step(list) return select(3, run_with(list, { slow })).varied_p50_seconds end
      assert.near(runs * slow, step { "moe", "core_attn" } - step { "moe" }, 1e-9)
    end
  end)
end)

describe("a host that reads the experts' numbers of tokens", function()
  local model = model_module.new("mixtral", { layers = 3, hidden = 512, heads = 8, ffn = 1024, vocab = 1000,
    experts = 8, top_k = 2 })
  local runs, launch, short = 3 * 4, 1e-3, 1e-4

  -- Forward seconds of waits for the host, and the names of a layer's forward operations. One operator takes a second.
  local function run_with(stack, long, plan)
    local profile = {
      operator = function(_, name) return exactly(name == long and 1.0 or short) end,
      collective = function() return exactly(0.0) end,
    }
    local e = estimate.new { model = model, cluster = "perlmutter", profile = profile, units = true,
      plan = require("ett.base.merged")({ seq = 512, micro_batches = 4, stack = stack }, plan or {}) }
    local names, waits = {}, 0.0
    for _, kind in ipairs(e.lowered.kinds) do
      for _, item in ipairs(kind.place == "middle" and #names == 0 and kind.order or {}) do
        local o = e.lowered.operations[item[1]]
        local launched = o.forward and not (o.operator and o.operator.joins)
        for _ = 1, launched and item[2] or 0 do names[#names + 1] = o.name end
      end
    end
    for _, line in ipairs(e.operators) do if line.name == "host" then waits = line.forward_seconds end end
    return waits, names
  end

  local base = "megatron:launch_seconds=1e-3:moe_launches=0:expert_seconds=0:reads_counts="

  local function added(reads, long, plan, more)
    local waits, names = run_with(base .. reads .. (more or ""), long, plan)
    return waits - run_with(base .. "none" .. (more or ""), long, plan), names
  end

  -- Launches from the first operator up to the second, in a ring of layers.
  local function launches(names, first, last)
    local from
    for k, name in ipairs(names) do from = from or name == first and k end
    for count = 1, #names do
      if names[(from + count - 2) % #names + 1] == last then return count end
    end
  end

  it("is not ahead until a kernel takes longer than the launches", function()
    for _, case in ipairs { { "before_permute", "moe_permute" }, { "before_exchange", "expert_linear1" } } do
      local reads, first = table.unpack(case)
      for _, long in ipairs { "flash_attention", "swiglu", "moe_unpermute", "linear_qkv" } do
        local wait, names = added(reads, long)
        local count = launches(names, first, long)
        assert.is_true(count > 1)
        assert.near(runs * (count * launch - (count - 1) * short), wait, 1e-9, reads .. " " .. long)
      end
    end
    assert.near(runs * launch, (added("before_permute", "moe_permute")), 1e-9)
  end)

  it("waits while the permutation runs, if it reads beside it", function()
    -- The permutation hides what is launched behind it, and a second hides the launches of the whole layer.
    local before, beside = added("before_exchange", "expert_linear1"), added("beside_permute", "expert_linear1")
    assert.near(runs * launch, before, 1e-9)
    assert.near(before - runs * short, beside, 1e-9)
    assert.equal(0.0, (added("beside_permute", "moe_permute")))
    assert.is_true(added("before_exchange", "moe_permute") > runs * launch)
    -- Numbers of tokens that are not dropped are needed by the permutation itself.
    local drops = { capacity_factor = 1 }
    local wait = added("beside_permute", "moe_permute", drops)
    assert.near(runs * launch, wait, 1e-9)
    assert.near(added("before_permute", "moe_permute", drops), wait, 1e-9)
    -- A graph with the permutation ends before the numbers go to the host.
    local graphed = ":graphed=moe_preprocess"
    local behind = added("before_exchange", "expert_linear1", nil, graphed)
    assert.near(runs * launch, behind, 1e-9)
    assert.equal(behind, (added("beside_permute", "expert_linear1", nil, graphed)))
    assert.near(wait, (added("beside_permute", "moe_permute", drops, graphed)), 1e-9)
  end)

  it("waits for routing and for experts' kernels in their places", function()
    -- One of four launches of routing comes after the numbers, half of it beside the permutation.
    local routing, kernels = ":moe_launches=8", ":expert_seconds=1e-4"
    assert.near(runs * (launch + 2 * launch), (added("before_permute", "moe_permute", nil, routing)), 1e-9)
    local plain, names = added("before_permute", "swiglu")
    assert.near(plain + runs * 8 * 1e-4, (added("before_permute", "swiglu", nil, kernels)), 1e-9)
    -- A product that takes long waits for the kernels of its first expert alone.
    plain = added("before_permute", "expert_linear1")
    assert.near(plain + runs * 1e-4, (added("before_permute", "expert_linear1", nil, kernels)), 1e-9)
    -- One that takes less than its eight launches ends one eighth of its time after the last. Only the operators before
    -- it would be ahead, if the host read no numbers.
    local behind = #names - launches(names, "moe_permute", "expert_linear2")
    assert.near(runs * (1 / 8 - behind * (launch - short)), (added("before_permute", "expert_linear2", nil,
      ":expert_seconds=0.2")), 1e-9)
    local count = launches(names, "moe_permute", "moe_router")
    assert.near(runs * (count * launch + 16e-3 - (count - 1) * short), (added("before_permute", "moe_router", nil,
      routing)), 1e-9)
    -- A graph of the router leaves a quarter of each product's nine launches. One of them is that of the product, so
    -- two products have 5/2 of routing, half of it beside the permutation. A graph of attention leaves them alone.
    for _, graphed in ipairs { "moe_router", "attn+moe_router" } do
      assert.near(runs * (1 + 5 / 4) * launch, (added("before_permute", "moe_permute", nil,
        routing .. ":graphed=" .. graphed)), 1e-9, graphed)
    end
    -- The router waits for all launches of the layer, a third of which the graphs leave.
    count = 1 / 3 * #names + 2 * (9 / 4 - 1 / 3)
    assert.near(runs * (count * launch - (#names - 1) * short), (added("before_permute", "moe_router", nil,
      routing .. ":graphed=attn+moe_router")), 1e-9)
  end)

  it("is ahead if it needs no numbers, or if it never is", function()
    assert.equal(0.0, (added("before_permute", "flash_attention", { capacity_factor = 1, pad_to_capacity = true })))
    for _, more in ipairs { ":graphs", ":blocking" } do
      assert.equal(0.0, (added("before_permute", "flash_attention", nil, more)))
    end
  end)
end)

describe("launches of the host", function()
  local model = model_module.new("mixtral", { layers = 2, hidden = 512, heads = 8, ffn = 1024, vocab = 1000,
    experts = 8, top_k = 2 })
  local profile = { operator = function() return exactly(0.0) end, collective = function() return exactly(0.0) end }

  -- Seconds of each pass, in which the device only waits.
  local function waits(tp, words)
    local e = estimate.new { model = model, cluster = "dgx_h100", profile = profile, plan = { seq = 512,
      micro_batches = 1, tp = tp, gradient_dtype = "fp32", stack = "plain:graphs=false:launch_seconds=1e-3" .. words } }
    for _, line in ipairs(e.operators) do
      if line.name == "host" then return line.forward_seconds, line.backward_seconds end
    end
  end

  it("take longer for operators whose weights are DTensors, except those of experts", function()
    -- Of two layers the norms, two products and the router; embedding, last norm and head.
    local launches = 2 * 5 + 3
    for _, reads in ipairs { ":reads_counts=none", ":reads_counts=before_permute" } do
      local forward, backward = waits(4, ":tensor_launches=3" .. reads)
      local plain_forward, plain_backward = waits(4, reads)
      assert.near(launches * 2e-3, forward - plain_forward, 1e-9)
      assert.near(2 * launches * 2e-3, backward - plain_backward, 1e-9)
    end
    assert.same({ waits(1, "") }, { waits(1, ":tensor_launches=3") })
  end)

  it("include those of autocast's casts, unless they are compiled", function()
    local forward, backward = waits(1, ":autocast:norm=torch")
    local compiled_forward, compiled_backward = waits(1, ":autocast:norm=compiled")
    local places = 4 -- two layers, what is before them, and what is behind them
    assert.near(places * 3e-3, forward - compiled_forward, 1e-9)
    assert.near(places * 2 * 3e-3, backward - compiled_backward, 1e-9)
  end)
end)

describe("software that splits the residual stream in any case", function()
  it("has the steps of sequence parallelism, with experts, too", function()
    local hyper = { layers = 4, hidden = 1024, heads = 8, ffn = 2048, vocab = 32000 }
    local function step_of(more, shared, tp, seq)
      local given = { micro_batches = 2, seq = seq or 1024, tp = tp or 4, pp = 2, stack = "maxtext",
        sequence_parallel = shared }
      for key, value in pairs(hyper) do more[key] = more[key] or value end
      local e = estimate.new { cluster = "dgx_h100", plan = given,
        model = model_module.new(more.experts and "mixtral" or "llama", more) }
      return { e.step_seconds, e.memory_bytes, e.stages[1].activation_bytes, e.stages[1].send_seconds },
        tostring(e):find("sequence_parallel", 1, true)
    end
    local split, said = step_of({}, nil)
    assert.same(step_of({}, true), split)
    assert.is_nil(said)
    assert.same(step_of({}, true, 1), step_of({}, nil, 1))
    local experts = { experts = 8, top_k = 2, moe_ffn = 512 }
    local shared = step_of(experts, true)
    assert.same(shared, step_of(experts, nil))
    assert.is_true(step_of({}, nil, 4, 1022)[3] > split[3]) -- no equal parts
  end)
end)

describe("software that gathers the stream once around experts", function()
  it("gathers and scatters one copy of each token, whatever the tensor ranks of an expert", function()
    local function gathered(stack, more)
      local plan = { micro_batches = 1, seq = 1024, tp = 4, ep = 2, dp = 2, zero = 3, stack = stack,
        sequence_parallel = true }
      for key, value in pairs(more or {}) do plan[key] = value end
      local e, sums = estimate.new { cluster = "dgx_h100", plan = plan, profile = false, model = model_module.new(
        "mixtral", { layers = 4, hidden = 1024, heads = 8, ffn = 2048, vocab = 32000, experts = 8, top_k = 4 }) }, {}
      for _, line in ipairs(e.collectives) do
        sums[line.name .. " " .. line.group] = line.seconds
      end
      return sums
    end
    local once, times = gathered "torchtitan", gathered "torchtitan:gathers_once=false"
    assert.is_true(once["all_gather tp"] < 0.9 * times["all_gather tp"])
    assert.is_true(once["all_to_all ep"] > 2 * times["all_to_all ep"])
    local whole = gathered("torchtitan", { etp = 1 })
    assert.equal(once["all_gather tp"], whole["all_gather tp"])
    assert.equal(times["all_to_all ep"], whole["all_to_all ep"])
    assert.same(gathered("torchtitan:gathers_once=false", { tp = 1, sequence_parallel = false }),
      gathered("torchtitan", { tp = 1, sequence_parallel = false }))
  end)
end)

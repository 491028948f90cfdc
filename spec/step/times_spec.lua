--- Times of a step: answers of a profile, each requested once and checked; assumed times without an answer.
local operator = require "ett.operator"
local times_module = require "ett.step.times"
local fits = require("needs").fitting(it, pending)
local raised_by = require "raised"

local cluster = { name = "flat", path = "spec", gpus_per_node = 4,
  device = { name = "D", peak_flops = { bf16 = 1e14, fp32 = 5e13 }, memory_bytes = 80e9, memory_bandwidth = 1e12 } }
local shape = { tokens = 4096, hidden = 1024 }

local function profile(seconds, asked)
  local function answer(low)
    return function()
      asked[1] = (asked[1] or 0) + 1
      return { seconds = seconds, low_seconds = low, high_seconds = 1e400, provenance = "measured" }
    end
  end
  return { operator = answer(-1), collective = answer "unknown" }
end

describe("times", function()
  it("of an update and of casts are those of the plan's stack", function()
    local hyper = { layers = 4, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 32000 }
    local function run(stack, dtype)
      return require("ett.step.estimate").new { model = require("ett.model").new("llama", hyper),
        cluster = "dgx_h100", plan = { seq = 8192, micro_batches = 1, stack = stack, dtype = dtype } }
    end
    local plain, cast = run "transformers", run "transformers:autocast"
    local function ratio(e) return e.stages[1].optimizer_seconds / plain.stages[1].optimizer_seconds end
    assert.near((80 + 2 + 12) / (28 + 2 + 12), ratio(run "transformers:update=foreach"), 1e-3)
    assert.near((28 + 12) / (28 + 2 + 12), ratio(cast), 1e-3)
    assert.near((28 + 24 - 4) / (28 + 2 + 12), ratio(run("transformers:autocast", "fp16")), 1e-3)
    -- Both passes of a layer: two composite norms, two residual additions, five casts, sums of three inputs' gradients,
    -- weights, and rotations of 40 heads. Outside: the last norm, the head's cast, the embedding.
    local t, h, f = 8192, 4096, 14336
    local weights = h * 6144 + h * h + 3 * h * f
    local layer = t * h * (2 * -8 + 2 * (4 + 12) + 5 * (6 + 6) + 3 * 6) + 12 * weights + 42 * t * 40 * 128
    local ends = t * h * (-8 + 12 + 4 + 6) + (12 + 2) * 32000 * h
    local rate = 3.35e12 * require("ett.profile.in_step").stream_share
    for _, line in ipairs(cast.operators) do
      if line.name == "autocast" then assert.near((4 * layer + ends) / rate, line.seconds, 0.02 * line.seconds) end
    end
    assert.is_true(cast.step_seconds > plain.step_seconds)
  end)

  it("of a quantised model with fp32 norms contain casts of its products and wider tensors", function()
    local t, h, kv, f, vocab, rank = 4096, 2048, 512, 8192, 32000, 16
    local model = require("ett.model").new("llama", { layers = 4, hidden = h, heads = 16, kv_heads = 4, ffn = f,
      vocab = vocab })
    local function run(more, fields)
      return require("ett.step.estimate").new { model = model, cluster = "dgx_a100",
        plan = require "ett.base.merged"({ seq = t, micro_batches = 1, recompute = "full", lora_rank = rank,
          lora_targets = { "linear_down" }, frozen_weights = "nf4", stack = "transformers" .. more }, fields) }
    end
    local plain, wide = run "", run ":fp32_norms"
    -- Products cast three and two copies of the norms' outputs and the activation's, and their own outputs. Rotation
    -- and activation are in fp32, attention casts. A sum is of fp32 and 16 bits, or of two fp32 tensors. PEFT copies
    -- the output of linear_down, and its adapter casts.
    local casts = 6 * ((3 + 2 + 1) * h + (2 + 1 + 1) * f + h + 2 * kv) + 25 * (h + kv) + 6 * (h + 2 * kv)
    local forward = casts - 2 * 8 * h + 10.5 * f + (4 + 6) * h + (8 + 4) * h
    local backward = casts + (2 + 1) * 6 * h + 17.5 * f + (12 + 6) * h + 6 * h
    local ends = -8 * h + (6 + 6) * h
    local rate = 2.039e12 * require("ett.profile.in_step").stream_share
    local seconds = 0.0
    for _, line in ipairs(wide.operators) do
      if line.name == "fp32_norms" then seconds = line.seconds end
    end
    assert.near(t * (4 * (2 * forward + backward) + ends) / rate, seconds, 0.01 * seconds)
    assert.near(seconds, wide.step_seconds - plain.step_seconds, 0.05 * seconds)
    -- Layers keep an fp32 input; that of the layer at work is its norm's. It keeps gate, up and silu(gate) in fp32.
    assert.near(2 * t * (3 * h + 3 * f), wide.stages[1].activation_bytes - plain.stages[1].activation_bytes, t * h / 4)
    local idle = run(":fp32_norms", { frozen_weights = "none" })
    assert.equal(run("", { frozen_weights = "none" }).step_seconds,
      idle.step_seconds)
    assert.truthy(table.concat(idle.warnings, "\n"):find("fp32_norms has no effect: it needs frozen_weights", 1, true))
    assert.falsy(table.concat(wide.warnings, "\n"):find("fp32_norms", 1, true))
    assert.has_error(function() run ":fp32_norms:autocast" end)
  end)

  it("of adapters with fp32 weights contain casts of their inputs and dropout in fp32", function()
    local t, h = 4096, 2048
    local model = require("ett.model").new("llama", { layers = 4, hidden = h, heads = 16, ffn = 8192, vocab = 32000 })
    local function run(more, fields)
      return require("ett.step.estimate").new { model = model, cluster = "dgx_a100",
        plan = require "ett.base.merged"({ seq = t, micro_batches = 1, lora_rank = 16, recompute = "full",
          lora_targets = { "linear_qkv" }, stack = "transformers" .. more }, fields) }
    end
    local rate = 2.039e12 * require("ett.profile.in_step").stream_share
    for dropout, each in pairs { [0] = 12, [0.1] = 12 + 4 } do
      local e, seconds = run(":fp32_adapters", { lora_dropout = dropout }), 0.0
      for _, line in ipairs(e.operators) do
        if line.name == "fp32_adapters" then seconds = line.seconds end
      end
      -- Three adapters in each of four layers; forward, again, and backward.
      assert.near(3 * 4 * 3 * each * t * h / rate, seconds, 0.02 * seconds)
      assert.near(seconds, e.step_seconds - run("", { lora_dropout = dropout }).step_seconds, 0.02 * seconds)
    end
    -- Each adapter stores a 16-bit copy. Without the field it reads the tensor that the norm or attention stores.
    for name, copies in pairs { linear_qkv = 3 - 1, linear_proj = 1 } do
      local fields = { recompute = "none", lora_targets = { name } }
      local function bytes(more) return run(more, fields).stages[1].activation_bytes end
      assert.equal(4 * copies * 2 * t * h, bytes ":fp32_adapters" - bytes "", name)
    end
    -- Two launches in a forward pass, and twice as many in a backward pass.
    local function waits(more)
      return run(more .. ":launch_seconds=1e-3", { seq = 64, recompute = "none" }).step_seconds
    end
    assert.near(4 * (2 + 4) * 1e-3, waits ":fp32_adapters" - waits "", 1e-9)
    for _, fields in ipairs { { frozen_weights = "nf4" }, { dtype = "fp32" } } do
      local idle = run(":fp32_adapters", fields)
      assert.equal(run("", fields).step_seconds, idle.step_seconds)
      assert.truthy(table.concat(idle.warnings, "\n"):find("fp32_adapters has no effect", 1, true))
    end
    assert.has_error(function() run ":fp32_adapters:autocast" end)
  end)

  it("contain the sums of input gradients of separate projections, of frozen ones too", function()
    local t, h = 4096, 2048
    local model = require("ett.model").new("llama", { layers = 4, hidden = h, heads = 16, kv_heads = 4, ffn = 8192,
      vocab = 32000 })
    local function seconds(joined, rank, name, grouped)
      local e = require("ett.step.estimate").new { model = model, cluster = "dgx_a100", plan = { seq = t,
        micro_batches = 2, lora_rank = rank, lora_targets = rank and { "linear_down" },
        stack = "transformers:separate_projections=" .. tostring(not joined)
          .. (grouped and ":grouped=" .. grouped or "") } }
      local sum = 0.0
      for _, line in ipairs(e.operators) do
        local counts = line.name == (name or "linear_qkv") or not name and line.name == "linear_up"
        if counts then sum = sum + line.seconds end
      end
      return sum
    end
    -- Two sums for queries, keys and values, and one for gate and up: three values of two bytes each.
    local sums = 2 * 4 * (2 + 1) * 6 * t * h / (2.039e12 * require("ett.profile.in_step").stream_share)
    for _, rank in ipairs { false, 8 } do
      assert.near(sums, seconds(false, rank or nil) - seconds(true, rank or nil), 0.01 * sums)
    end
    -- Gates of experts have modules of their own in a loop only.
    model = require("ett.model").new("mixtral", { layers = 4, hidden = h, heads = 16, ffn = 8192, vocab = 32000,
      experts = 4, top_k = 2 })
    for grouped, each in pairs { loop = 2 * 4 * 2 * 6 * t * h, kernel = 0 } do
      local alone = seconds(false, nil, "expert_linear1", grouped) - seconds(true, nil, "expert_linear1", grouped)
      assert.near(each / (2.039e12 * require("ett.profile.in_step").stream_share), alone, 0.01 * sums, grouped)
    end
  end)

  it("of heads that the attention kernel does not have come with a warning", function()
    local models = require "ett.model"
    local function warned(model, stack, own)
      if type(model) == "number" then
        model = models.new("llama", { layers = 2, hidden = 2048, heads = 4, head_dim = model, ffn = 4096,
          vocab = 1000 })
      end
      local e = require("ett.step.estimate").new { cluster = own or "dgx_a100", model = model,
        plan = { seq = 512, micro_batches = 1, stack = stack } }
      return table.concat(e.warnings, "\n"):match "cannot train heads of (%d+ values here %(at most %d+)%)"
    end
    for _, case in ipairs { { 256, 512, "transformers" }, { 128, 256, "megatron" }, { 256, 512, "megatron",
      "dgx_h100" }, { 128, 256, "transformers:attention=flash1" }, { 128, 192, "megatron", "dgx_b200" } } do
      assert.is_nil(warned(case[1], case[3], case[4]), case[3])
      assert.equal(("%d values here (at most %d"):format(case[2], case[1]), warned(case[2], case[3], case[4]), case[3])
    end
    assert.is_nil(warned(models.new("deepseek-v2-lite", { layers = 2 }), "megatron", "dgx_b200"))
    -- One layer of six has wider heads.
    assert.equal("512 values here (at most 256", warned(models.new("gemma4-31b", { layers = 6 }), "transformers"))
    assert.is_nil(warned(512, "transformers:attention=efficient"))
  end)

  it("of casts are those of each product that reads fp32 values, adapters and shared experts included", function()
    local stacks, lower, blocks = require "ett.operator.stack", require "ett.step.lower", require "ett.model.blocks"
    local function casts(name, fields)
      local hyper = { layers = 2 }
      if type(name) == "function" then hyper = { layers = 1, hidden = 256, heads = 4, ffn = 1024, vocab = 1000 } end
      local model, list = require("ett.model").new(name, hyper), {}
      local p = require("ett.plan").new(require "ett.base.merged"({ seq = 512, micro_batches = 1,
        stack = "transformers:autocast" }, fields), model)
      local c, stack = require("ett.model.architecture").configuration(model.hyper, p), stacks.get(p.stack)
      local autocast = require "ett.operator.autocast"
      for _, layer in ipairs(p.lora_rank and require("ett.step.frozen").layers(model.layers, p) or model.layers) do
        local items = lower.items(layer, c, p, stack)
        autocast.mark(items, c, stack)
        for _, item in ipairs(layer.name == (p.lora_rank and "decoder" or "sparse") and items or {}) do
          if item.casts then list[#list + 1] = item.name .. " " .. item.casts end
          if item.adapter and item.name == "residual_add" then
            assert.equal(0, autocast.moved(item, "forward", stack))
          end
          if item.name == "modulate" then
            local bytes = item.shape.tokens * 256 * (item.wide and 2 or 0)
            assert.same({ 2 * bytes, 3 * bytes, bytes }, { autocast.moved(item, "forward", stack),
              autocast.moved(item, "backward", stack), autocast.stored(item, 2.0 * item.shape.tokens * 256, stack) })
          end
        end
      end
      return table.concat(list, ", ")
    end
    assert.equal("linear_kv_down 1, linear_q_up 1, linear_kv_up 1, expert_linear1 2, linear_up 2",
      casts "deepseek-v2-lite")
    assert.matches("expert_linear1 1, linear_up 2", casts("deepseek-v2-lite", {
      stack = "transformers:autocast:grouped=kernel" }))
    -- A scale and a shift after a norm, or an activation, pass fp32 values on; one of a product's output has 16 bits.
    assert.equal("linear_up 1", casts(function(h)
      return blocks.decoder(h, { name = "sparse", count = 1,
        ops = { "layer_norm", "modulate", "linear_up", "modulate", "linear_down" } })
    end))
    assert.equal("linear_qkv 3, linear_up 2, lora_a 1, lora_a 1",
      casts("llama2-7b", { lora_rank = 8, lora_targets = { "linear_up" } }))
  end)

  it("ask a profile once for each shape, and bound its interval", function()
    local asked = {}
    local times = times_module.new(cluster, profile(2, asked))
    local op = operator.get "residual_add"
    local first = times:operator(op, shape, "bf16", "forward")
    assert.same({ 2, 2, 2 }, { first.seconds, first.low_seconds, first.high_seconds })
    assert.equal(first, times:operator(op, { hidden = 1024, tokens = 4096 }, "bf16", "forward"))
    assert.equal(1, asked[1])
    local topology = { nodes = 1, gpus_per_node = 4 }
    local message = times:collective("all_reduce", 100, topology, "bf16")
    assert.equal(message, times:collective("all_reduce", 100, topology, "bf16"))
    assert.equal(2, asked[1])
    assert.same({ message.seconds, message.low_seconds, message.high_seconds, "measured" },
      { times:of_demand({ kind = "all_reduce", bytes = 100, topology = topology, element_bytes = 2 }, "bf16", 1) })
  end)

  it("read the dimensions of a shape once for both passes, and again for another shape", function()
    local times = times_module.new(require("ett.profile.cluster").get "perlmutter")
    local op, count = operator.get "linear_qkv", 0
    local kernel_shape = op.kernel_shape
    op.kernel_shape = function(s)
      count = count + 1
      return kernel_shape(s)
    end
    local function seconds(tokens)
      local s = { tokens = tokens, in_features = 4096, out_features = 6144 }
      return times:operator(op, s, "fp16", "forward").seconds, times:operator(op, s, "fp16", "backward").seconds
    end
    local forward, backward = seconds(4096)
    local counted, longer, longer_backward = count, seconds(8192)
    op.kernel_shape = kernel_shape
    assert.same({ 1, 2 }, { counted, count })
    assert.is_true(longer > 1.8 * forward and longer_backward > 1.8 * backward)
  end)

  it("are at least those of the network that groups share, also where the profile answers 0", function()
    local linked = require("ett.profile.cluster").get "dgx_h100"
    local model = require("ett.model").new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 32000 })
    local function sends(seconds)
      local e = require("ett.step.estimate").new { model = model, cluster = linked, profile = profile(seconds, {}),
        plan = { seq = 1024, pp = 2, tp = 8, micro_batches = 4 } }
      return e.stages[1].send_seconds
    end
    assert.is_true(sends(0) > 0 and sends(0) < 1e-3)
    assert.equal(sends(0), sends(1e-9))
  end)

  it("are those of the links if the profile has no samples of a collective, or none of that size", function()
    local topology = { nodes = 2, gpus_per_node = 4 }
    local linked = require("ett.profile.cluster").get "dgx_h100"
    local links = times_module.new(linked, false):collective("all_reduce", 1e6, topology, "bf16")
    local own = profile(2, {})
    for _, timer in ipairs { function() return nil end, function() return function() return nil end end } do
      own.collective_timer = timer
      assert.equal(links.seconds, times_module.new(linked, own):collective("all_reduce", 1e6, topology, "bf16").seconds)
    end
  end)

  -- C times the messages of some plans as Lua does, at least one by a law or a regressor.
  local function same_messages(on)
    local core, fields = require "ett.step", require "ett.plan.fields"
    local times, priced = times_module.new(on), 0
    for _, changes in ipairs { { pp = 4, dp = 8 }, { tp = 2, dp = 32, zero = 1 }, { pp = 2, zero = 3, dp = 2 },
      { tp = 4 }, { pp = 2, micro_batch = 512 } } do -- vista: sends above its samples
      local model = require("ett.model").new("llama", { layers = 8, hidden = 1024, heads = 8, ffn = 4096,
        vocab = 32000 })
      changes.seq, changes.micro_batches, changes.dtype = 1024, 4, "fp16"
      if on.gpus_per_node % (changes.tp or 1) == 0 then
        local p = require("ett.plan").new(changes, model, on)
        local program <close> = require("ett.step.lower").program(model, p, times).program
        local demands <close> = core.demands()
        local workspace <close> = core.workspace()
        local counting = setmetatable({ price = function(_, ...) priced = priced + 1; return demands:price(...) end },
          { __index = function(_, method) return function(_, ...) return demands[method](demands, ...) end end })
        assert.is_nil(program:totals(fields.to_c(p, require("ett.profile.cluster").placement(on)), demands, workspace))
        times:answer(counting, p.dtype, 1024)
        for i = 1, demands:count() do
          local d = demands:get(i)
          assert.equal((times:of_demand(d, p.dtype, 1024)), d.seconds, on.name .. d.kind)
        end
      end
    end
    assert.is_true(priced > 0, on.name)
  end

  it("of a plan are those of its own messages, also after a plan with other sends", function()
    local core, fields, clusters = require "ett.step", require "ett.plan.fields", require "ett.profile.cluster"
    local on = clusters.get "dgx_h100"
    local times, demands, workspace = times_module.new(on), core.demands(), core.workspace()
    finally(function() demands:close() workspace:close() end)
    local model = require("ett.model").new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 32000 })
    for _, micro_batch in ipairs { 1, 2 } do
      local p = require("ett.plan").new({ seq = 1024, pp = 2, dp = 2, micro_batches = 4, micro_batch = micro_batch },
        model, on)
      local program <close> = require("ett.step.lower").program(model, p, times).program
      local plan, sent = fields.to_c(p, clusters.placement(on)), {}
      assert.is_nil(program:evaluate(plan, demands, workspace, false))
      times:answer(demands, p.dtype, 1024)
      for _, d in ipairs(program:evaluate(plan, demands, workspace, false).demands) do
        if d.kind == "send_recv" then sent[#sent + 1] = d.bytes end
      end
      assert.same({ 2 * 1024 * 1024 * micro_batch }, sent)
    end
  end)

  it("of messages that follow a law are those of single answers", function()
    for _, name in ipairs { "dgx_h100", "perlmutter", "superpod_dgxh100", "vista" } do
      same_messages(require("ett.profile.cluster").get(name))
    end
  end)

  fits("of messages outside the samples are those of single answers, too", function()
    local clusters, folder = require "ett.profile.cluster", require "ett.base.folder"
    local on, samples = clusters.get "perlmutter", folder.temporary()
    finally(function() folder.remove(samples) end)
    -- Elements of the smallest sample, and its time over that of the links. The plan's messages have 2 MB.
    for _, case in ipairs { { 1 << 9, 0.3 }, { 1 << 9, 3 }, { 1 << 24, 0.7 }, { 1 << 24, 3 } } do
      local lines = { "shape,nodes,GPUsPerNode,dur(us)" }
      for i = 0, 39 do
        local elements = math.floor(case[1] * 1.15 ^ i)
        local links = clusters.collective(on, "all_reduce", 2 * elements, { nodes = 1, gpus_per_node = 4 }).seconds
        lines[#lines + 1] = ("%d,1,4,%.6f"):format(elements, 1e6 * case[2] * links)
      end
      folder.write(samples .. "/NVIDIAA100-SXM4-80GB_all_reduce_fp16.csv", table.concat(lines, "\n") .. "\n")
      same_messages(require("ett.base.merged")(on, { profile = samples }))
    end
  end)

  it("refuse an invalid time, with its operator or message", function()
    for _, seconds in ipairs { -1, 0 / 0, math.huge } do
      local ok, raised = pcall(function()
        times_module.new(cluster, profile(seconds, {})):operator(operator.get "residual_add", shape, "bf16", "backward")
      end)
      assert.is_false(ok)
      assert.matches("^the profile's time of residual_add %(backward%) must be finite and at least 0, got ",
        tostring(raised))
    end
    local function text() return { seconds = "1", low_seconds = "0", high_seconds = "2" } end
    local timers = { operator_timer = function() return text end, collective_timer = function() return text end }
    local own = times_module.new(cluster, timers)
    local message = "^the profile's time of %s must be finite and at least 0, got '1'$"
    assert.matches(message:format "residual_add %(forward%)", raised_by(own.operator, own,
      operator.get "residual_add", shape, "bf16", "forward"))
    assert.matches(message:format "all_reduce", raised_by(own.collective, own, "all_reduce", 1e6,
      { nodes = 1, gpus_per_node = 4 }, "bf16"))
  end)

  it("leave the answers of a profile as they are", function()
    for _, interval in ipairs { { 0.5, 2.0 }, { -1, "unknown" } } do
      local answer = { seconds = 1.0, low_seconds = interval[1], high_seconds = interval[2], provenance = "measured" }
      local proxy = setmetatable({}, { __index = answer, __newindex = function() error "read-only" end })
      local function read() return proxy end
      local own = times_module.new(cluster, { operator = read, collective = read })
      local one = own:operator(operator.get "residual_add", shape, "bf16", "forward")
      assert.same({ 1.0, "measured" }, { one.seconds, one.provenance })
      assert.equal(1.0, own:collective("all_reduce", 1e6, { nodes = 1, gpus_per_node = 4 }, "bf16").seconds)
    end
  end)

  it("are assumed without a profile: bytes, FLOPs and a launch, never less than either", function()
    local times = times_module.new(cluster, false)
    for _, name in ipairs { "residual_add", "linear_up", "rms_norm" } do
      local op = operator.get(name)
      local s = name == "linear_up" and { tokens = 4096, in_features = 1024, out_features = 4096 } or shape
      local answer = times:operator(op, s, "bf16", "forward")
      assert.equal("assumed", answer.provenance)
      assert.is_true(answer.seconds > op.bytes(s, "bf16", "forward") / 1e12)
      assert.is_true(answer.seconds > op.flops(s, "forward") / 1e14)
      assert.is_true(answer.low_seconds < answer.seconds and answer.seconds < answer.high_seconds)
    end
  end)

  it("show the least certain of two provenances", function()
    assert.equal("assumed", times_module.worse("measured", "assumed"))
    assert.equal("calibrated", times_module.worse("calibrated", "interpolated"))
    assert.equal("measured", times_module.worse(nil, "measured"))
  end)
end)

--- What a device holds beyond states and activations: against a walk through the passes, and sums by hand.
local estimate = require "ett.step.estimate"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local step_core = require "step_core"
local generator = require("random").integers

--- The most bytes while every layer runs forward, then backward in reverse, freeing what it kept. again: of a
--- recomputed layer, beyond what it kept.
local function walked(layers)
  local held, most = 0, 0
  for _, layer in ipairs(layers) do held = held + layer.kept end
  for i = #layers, 1, -1 do
    most = math.max(most, held + layers[i].working + (layers[i].again or 0))
    held = held - layers[i].kept
  end
  return most
end

--- Activations and work of a program on one stage.
local function held_by(operations, kinds, recompute, pp)
  local program <close> = step_core.program { operations = operations, kinds = kinds }
  local r = step_core.evaluated(program,
    step_core.plan { seq = 1, clip_gradients = false, recompute = recompute, pp = pp })
  return r.stages[1].activation_bytes + r.stages[1].working_bytes, r.stages
end

describe("the passes of a stage", function()
  it("hold the memory that a walk through their layers counts", function()
    local random = generator(11)
    for case = 1, 200 do
      local operations, kinds, layers = {}, {}, {}
      local count = 1 + random(5)
      for k = 1, count do
        local kept, working, weight = random(1000), random(4000), random(3000)
        operations[k] = { activation_bytes = kept + 0.0, working_bytes = working + 0.0,
          weight_working_bytes = weight + 0.0 }
        local place = k == 1 and random(2) == 0 and "first" or k == count and random(2) == 0 and "last" or "middle"
        kinds[k] = { place = place, count = 1 + random(4), uses = { [k] = 1 } }
        for _ = 1, kinds[k].count do layers[#layers + 1] = { kept = kept, working = working + weight } end
      end
      assert.equal(walked(layers), held_by(operations, kinds), "case " .. case)
    end
  end)

  it("hold it with recomputation: a layer's input, and the whole layer during its backward pass", function()
    local random = generator(12)
    for case = 1, 200 do
      local operations, kinds, layers = {}, {}, {}
      local count = 1 + random(5)
      for k = 1, count do
        local kept, working = random(1000), random(4000)
        local input = random(kept + 1)
        operations[k] = { activation_bytes = kept + 0.0, working_bytes = working + 0.0 }
        local place = k == 1 and random(2) == 0 and "first" or k == count and random(2) == 0 and "last"
          or k > 1 and (kinds[k - 1].place == "prediction" or random(6) == 0) and "prediction" or "middle"
        kinds[k] = { place = place, count = 1 + random(4), uses = { [k] = 1 }, input_bytes = input + 0.0 }
        local again = place == "middle" or place == "prediction"
        for _ = 1, kinds[k].count do
          layers[#layers + 1] = { kept = again and input or kept, working = working, again = again and kept - input }
        end
      end
      assert.equal(walked(layers), held_by(operations, kinds, "full"), "case " .. case)
    end
  end)
end)

describe("the memory of an estimate", function()
  local hyper = { layers = 12, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672, vocab = 128256 }
  local tokens, h, f, t = 4096.0, 8192.0, 28672.0, 4
  local function run(plan, stack)
    local all = merged({ seq = 4096, tp = t, dp = 2, micro_batches = 4, sequence_parallel = true, zero = 1,
      stack = stack, fused_accumulation = true }, plan)
    return estimate.new { model = model_module.new("llama", hyper), cluster = "dgx_b200", plan = all }
  end

  it("is that of Megatron by hand: 12 layers of Llama 3 70B on four tensor ranks", function()
    local layer = (h * (h + 2048) + h * h + 3 * h * f) / t + 2 * h
    local vocab = 128256.0 * h / t
    local parameters = 12 * layer + 2 * vocab + h
    local states = parameters * (2 + 4 + 12 / 2)
    -- Kept of a layer: two norms' inputs and outputs in shards; queries, keys, values, statistics; the projection's
    -- input; gate, up and their product.
    local kept = tokens * (2 * 4 * h + 2 * (h + 2048) + 4 * 64 + 2 * h + 2 * 3 * f) / t
    local head = tokens * (2 * h / t * 2 + 2 * 128256.0 / t)  -- final norm, the head's input, 16-bit logits
    local working = 2 * tokens * h * 2 + 2 * vocab  -- gathered input and its gradient, the head's weight gradient
    local cached = 2 * (h * (h + 2048) + h * h + 3 * h * f) / t
    local wanted = states + 12 * kept + head + working + cached + 67.2e6
    local e = run(nil, "megatron")
    for _, line in ipairs(e.memory) do
      if line.field == "loss_bytes" then assert.near(tokens * 2 * 128256 / t, line.bytes, 0.005 * line.bytes) end
    end
    assert.equal(e.stages[1].loss_bytes, run({ recompute = "full" }, "megatron").stages[1].loss_bytes)
    assert.is_true(math.abs(e.allocated_bytes / wanted - 1) < 0.005,
      ("wanted %.4g, got %.4g"):format(wanted, e.allocated_bytes))
  end)

  it("is the sum of its lines", function()
    for _, stack in ipairs { "plain", "megatron", "torchtitan", "megatron_deepspeed" } do
      local e = run({ pp = 2, zero = 3, gradient_dtype = "bf16", recompute = "selective" }, stack)
      local sum = 0.0
      for _, line in ipairs(e.memory) do sum = sum + line.bytes end
      assert.is_true(math.abs(sum / e.memory_bytes - 1) < 1e-12, stack)
      assert.is_true(e.allocated_bytes < e.reserved_bytes and e.reserved_bytes < e.memory_bytes, stack)
    end
  end)

  it("has fp32 copies of 16-bit gradients during the update, beyond the memory of the passes", function()
    local e = run { gradient_dtype = "bf16", seq = 64, zero = 0 }
    local s = e.stages[1]
    assert.near(4 * s.parameters, s.activation_bytes + s.working_bytes + s.update_bytes, 1)
    assert.equal(0, run { seq = 64, zero = 0 }.stages[1].update_bytes)
    -- Two moments of 16 bits and no fp32 weight.
    assert.equal(0, run { seq = 64, zero = 0, gradient_dtype = "bf16", optimizer_bytes = 4 }.stages[1].update_bytes)
  end)

  it("has no 16-bit shards where ZeRO-3 shards the optimizer's weights: 16 bytes a parameter under FSDP", function()
    for stack, weights in pairs { fsdp_eager = 0, torchtitan = 0, llm_foundry = 0, maxtext = 0, megatron_fsdp = 2 } do
      local s = run({ tp = 1, sequence_parallel = false, zero = 3 }, stack).stages[1]
      assert.near((weights + 4 + 12) * s.parameters / 2,
        s.weight_bytes + s.gradient_bytes + s.optimizer_bytes, 1, stack)
    end
    local function weights(plan) return run(plan, "fsdp_eager").stages[1].weight_bytes end
    local frozen = run({ tp = 1, sequence_parallel = false, zero = 3, lora_rank = 8 }, "fsdp_eager").stages[1]
    assert.near(2 * frozen.frozen_parameters / 2, frozen.weight_bytes, 1)
    assert.is_true(weights { tp = 1, sequence_parallel = false, zero = 2 } > 0)
    assert.is_true(weights { tp = 1, sequence_parallel = false, zero = 3, dp = 1 } > 0)
    assert.is_true(weights { tp = 1, sequence_parallel = false, zero = 3, optimizer_bytes = 4 } > 0)
  end)

  it("has reduced gradients in the type of the sharded weights under FSDP, whatever messages have", function()
    local function gradient(plan, stack)
      plan.tp, plan.sequence_parallel, plan.zero = 1, false, plan.zero or 3
      local s = run(plan, stack).stages[1]
      assert.equal(stack == "megatron_fsdp" and s.update_bytes or 0, s.update_bytes) -- no copies
      return math.floor(2 * s.gradient_bytes / s.parameters + 0.5)
    end
    for _, stack in ipairs { "fsdp_eager", "torchtitan", "llm_foundry", "maxtext" } do
      assert.equal(4, gradient({ gradient_dtype = "bf16" }, stack))
      assert.equal(4, gradient({ gradient_dtype = "bf16", dtype = "fp32" }, stack))
      assert.equal(2, gradient({ gradient_dtype = "fp32", optimizer_bytes = 6 }, stack)) -- all in 16 bits
      assert.equal(2, gradient({ gradient_dtype = "bf16", optimizer_bytes = 4 }, stack)) -- 8-bit moments
    end
    assert.equal(2, gradient({ gradient_dtype = "bf16" }, "megatron_fsdp"))
  end)

  it("has 16 bytes a parameter in fp32 as in 16 bits: there is no second fp32 weight", function()
    for _, stack in ipairs { "plain", "megatron", "torchtitan", "fsdp_eager", "maxtext", "megatron_fsdp" } do
      local plan = { tp = 1, sequence_parallel = false, zero = 3, dtype = "fp32" }
      local e = run(plan, stack)
      local s = e.stages[1]
      assert.same({ 4, 4, 8 }, { math.floor(2 * s.weight_bytes / s.parameters + 0.5),
        math.floor(2 * s.gradient_bytes / s.parameters + 0.5), math.floor(2 * s.optimizer_bytes / s.parameters + 0.5) })
      assert.equal(8, e.plan.optimizer_bytes)
    end
    local full = { zero = 0, dtype = "fp32", failures_per_device_day = 1e-3 }
    local e = run(full)
    assert.near(12 * e.stages[1].parameters * t / e.devices, e.checkpoint_bytes, 1)
    assert.near(e.step_seconds, run(merged(full, { optimizer_bytes = 8 })).step_seconds, 1e-12)
    local s = run({ zero = 0, dtype = "fp32", offload_optimizer = 1 }).stages[1]
    assert.near((8 + 4) * s.parameters, s.host_bytes, 1) -- two moments, and the gradients of the update
    local rows = require("ett.search.sweep").new { model = model_module.new("llama", hyper), cluster = "dgx_b200",
      plan = { seq = 4096, tp = t, dp = 2, micro_batches = 4 }, over = { dtype = { "bf16", "fp32", "fp8" } } }.rows
    for _, row in ipairs(rows) do
      local swept = estimate.new { model = model_module.new("llama", hyper), cluster = "dgx_b200",
        plan = { seq = 4096, tp = t, dp = 2, micro_batches = 4, dtype = row.dtype } }
      assert.equal(swept.memory_bytes, row.memory_bytes)
      assert.equal(swept.step_seconds, row.step_seconds)
    end
    assert.equal(3, #rows)
  end)

  it("adds up whole gradients until the last micro-batch if their reduction is deferred", function()
    local function of(more, stack)
      local plan = merged({ tp = 1, sequence_parallel = false, dp = 8, zero = 3, micro_batches = 4 }, more)
      return run(plan, stack or "transformers_fsdp")
    end
    local deferred, every = of(), of({}, "transformers_fsdp:defers_gradients=false")
    local s, reduced = deferred.stages[1], every.stages[1]
    assert.near(4 * s.parameters, s.gradient_bytes, 1)
    assert.near(4 * s.parameters / 8, reduced.gradient_bytes, 1)
    assert.near(reduced.gradient_seconds / 4, s.gradient_seconds, 1e-12)
    assert.is_true(deferred.step_seconds < every.step_seconds)
    -- Weights are gathered for each pass. A new gradient has 16 bits instead of 32: that of head and norm until the end
    -- of the backward pass, and that of a layer.
    local layer = h * (h + 2048) + h * h + 3 * h * f + 2 * h
    assert.near(2 * (128256.0 * h + h + layer), reduced.temporary_bytes - s.temporary_bytes, 1)
    assert.near(4 * s.parameters / 8, of({ micro_batches = 1 }).stages[1].gradient_bytes, 1)
    assert.near(4 * s.parameters, of({ zero = 1 }).stages[1].gradient_bytes, 1)
    -- Gradients of 16 bits are reduced to those of the fp32 shards: on two ranks, to as many bytes.
    assert.near(2 * s.parameters, of({ gradient_dtype = "bf16" }).stages[1].gradient_bytes, 1)
    assert.near(2 * s.parameters, of({ gradient_dtype = "bf16", dp = 2 }).stages[1].gradient_bytes, 1)
    local host = of({ offload_gradients = 1 }).stages[1] -- reduced ones alone move
    assert.near(4 * s.parameters, host.gradient_bytes, 1)
    assert.near(4 * s.parameters / 8, host.host_bytes, 1)
  end)

  it("of the gradients of one micro-batch counts what exceeds the peak of the passes, without replicas", function()
    local function stage(more, frees)
      local plan = merged({ tp = 1, dp = 1, zero = 0, sequence_parallel = false, micro_batches = 1,
        gradient_dtype = "bf16", optimizer_bytes = 4 }, more)
      return run(plan, "fsdp_eager:frees_gradients=" .. tostring(frees ~= false)).stages[1]
    end
    local kept, freed = stage({ seq = 8192 }, false), stage { seq = 8192 } -- every layer stores its activations
    assert.near(2 * kept.parameters, kept.gradient_bytes, 1)
    assert.equal(0, freed.gradient_bytes)
    assert.near(kept.allocated_bytes - kept.gradient_bytes, freed.allocated_bytes, 1)
    -- With recomputation the peak is the end of the backward pass: all gradients, and the activations of one layer.
    local short = { recompute = "full", seq = 512 }
    local whole, repeated = stage(short, false), stage(short)
    local function layers(n)
      return estimate.new { model = model_module.new("llama", merged(hyper, { layers = n })),
        cluster = "dgx_b200", plan = { seq = 512, micro_batches = 1, stack = "fsdp_eager" } }.stages[1].activation_bytes
    end
    assert.near(whole.gradient_bytes + layers(12) - layers(11) - whole.activation_bytes - whole.working_bytes,
      repeated.gradient_bytes, 1)
    assert.is_true(repeated.gradient_bytes > 0 and repeated.gradient_bytes < whole.gradient_bytes)
    for _, more in ipairs { { micro_batches = 2 }, { dp = 2 } } do -- gradients of the micro-batch before; replicas
      assert.equal(stage(more, false).gradient_bytes, stage(more).gradient_bytes)
    end
  end)

  it("counts the gradients of one micro-batch beside the update's fp32 copies", function()
    local before = 0
    for _, seq in ipairs { 512, 1024, 2048, 4096, 8192, 16384, 32768 } do
      local function stage(frees)
        return run({ tp = 1, dp = 1, zero = 0, sequence_parallel = false, micro_batches = 1, gradient_dtype = "bf16",
          optimizer_bytes = 12, seq = seq }, "fsdp_eager:frees_gradients=" .. tostring(frees)).stages[1]
      end
      local kept, freed = stage(false), stage(true)
      local passes = freed.activation_bytes + freed.working_bytes
      -- Either the passes need most, or the update: 2 bytes of a gradient and 4 of its copy.
      local most = math.max(passes, (2 + 4) * freed.parameters)
      assert.near((2 + 12) * freed.parameters + most + freed.workspace_bytes, freed.allocated_bytes, 1)
      assert.is_true(freed.memory_bytes <= kept.memory_bytes and freed.memory_bytes >= before)
      before = freed.memory_bytes
      if seq == 512 then assert.equal(kept.memory_bytes, freed.memory_bytes) end
      if seq == 32768 then assert.equal(0, freed.gradient_bytes) end
    end
  end)

  it("has 16 bytes of a weight under autocast, and the casts of each layer until its backward pass", function()
    local function stage(stack, more)
      return run(merged({ tp = 1, sequence_parallel = false, zero = 0, fused_accumulation = false }, more),
        "transformers" .. stack).stages[1]
    end
    local short, s = stage "", stage ":autocast"
    assert.near(16 * s.parameters, s.weight_bytes + s.gradient_bytes + s.optimizer_bytes, 1)
    local bare = stage(":autocast", { optimizer_bytes = 4 }) -- no moments
    assert.near(8 * s.parameters, bare.weight_bytes + bare.gradient_bytes + bare.optimizer_bytes, 1)
    -- Of a layer: 2 more bytes in two norms; two more inputs of queries, keys and values, and one of gate and up; and
    -- 16-bit weights. Of the end: 2 more bytes in the last norm, and the weight of the head.
    local weights = h * (h + 2048) + h * h + 3 * h * f
    local layer, head = tokens * h * (2 * 2 + 2 * 2 + 2) + 2 * weights, 2 * tokens * h + 2 * 128256 * h
    assert.near(12 * layer + head, s.activation_bytes - short.activation_bytes, 1)
    -- With recomputation autocast holds all weights until the end of the forward pass; layers store an fp32 input.
    local few = stage(":autocast", { recompute = "full", seq = 64 })
    assert.near(12 * (2 * weights + 4 * 64 * h) + 2 * 128256 * h, few.activation_bytes + few.working_bytes,
      64 * 16 * (h + 128256)) -- the last norm, the head's input and the loss
  end)

  it("counts the temporary tensors of foreach beside the states, and not beside the passes", function()
    local function stage(seq, update, more)
      return run(merged({ tp = 1, dp = 1, zero = 0, sequence_parallel = false, micro_batches = 2, seq = seq }, more),
        "transformers:update=" .. update).stages[1]
    end
    for bytes, states in pairs { [4] = { dtype = "bf16" }, [2] = { gradient_dtype = "bf16", optimizer_bytes = 4 } } do
      local s, fused = stage(512, "foreach", states), stage(512, "fused", states)
      assert.near(bytes * s.parameters, s.activation_bytes + s.working_bytes + s.update_bytes, 1)
      assert.equal(0, fused.update_bytes)
      assert.equal(0, stage(65536, "foreach", states).update_bytes)
    end
  end)

  it("has whole weights and gradients of stages under FSDP2, from the first backward pass to the last", function()
    local function stage(more, stack)
      local plan = merged({ tp = 1, sequence_parallel = false, pp = 2, zero = 3, optimizer_bytes = 12 }, more)
      return run(plan, stack or "torchtitan").stages[1]
    end
    local layer = h * (h + 2048) + h * h + 3 * h * f + 2 * h
    local largest = math.max(layer, 128256.0 * h)
    for _, reshard in ipairs { true, false } do
      local s = stage { reshard = reshard }
      assert.near(4 * s.parameters, s.gradient_bytes, 1)
      assert.near(2 * s.parameters + 2 * largest, s.temporary_bytes, 1) -- gathered; 16-bit gradients of a layer
      s = stage { reshard = reshard, gradient_dtype = "bf16" } -- gradients are added where they are
      assert.near(2 * s.parameters, s.gradient_bytes, 1)
      assert.near(2 * s.parameters, s.temporary_bytes, 1)
    end
    local s = stage { offload_gradients = 1 } -- reduced ones alone move
    assert.near(4 * s.parameters, s.gradient_bytes, 1)
    assert.near(4 * s.parameters / 2, s.host_bytes, 1)
    s = stage { zero = 2 } -- as ZeRO-3 without reshard
    assert.near(4 * s.parameters, s.gradient_bytes, 1)
    assert.near(2 * s.parameters, s.weight_bytes, 1)
    assert.near(2 * largest, s.temporary_bytes, 1)
    assert.near(stage({ reshard = false }).allocated_bytes, s.allocated_bytes, 1)
    assert.equal(stage({ zero = 0, dp = 1 }).memory_bytes, stage({ zero = 3, dp = 1 }).memory_bytes) -- not sharded
    -- Experts are sharded over the tensor ranks, dense weights are not.
    local mixture = model_module.new("mixtral", { layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 1024,
      experts = 8, top_k = 2 })
    local function temporary(zero, etp)
      return estimate.new { model = mixture, cluster = "dgx_h100", profile = false, plan = { seq = 512, tp = 2,
        etp = etp, pp = 2, micro_batches = 4, zero = zero, stack = "fsdp_eager", sequence_parallel = true,
        gradient_dtype = "fp32" } }.stages[1].temporary_bytes
    end
    assert.is_true(temporary(2, 1) > 0)
    assert.equal(0, temporary(1, 1))
    assert.equal(0, temporary(2, 2))
    for _, case in ipairs { { { zero = 3, pp = 1 } }, { { zero = 2 }, "plain" }, { {}, "maxtext" },
      { {}, "megatron_fsdp" } } do
      s = stage(case[1], case[2])
      assert.near(4 * s.parameters / 2, s.gradient_bytes, 1)
    end
  end)

  it("holds quantised weights as the stack does, with transposed copies if products need them", function()
    local products = 12 * (h * (h + 2048) + h * h + 3 * h * f) / t
    local function weights(cluster, dtype, how, plan)
      local e = estimate.new { model = model_module.new("llama", hyper), cluster = cluster, plan = merged({ seq = 4096,
        tp = t, dp = 2, micro_batches = 4, dtype = dtype, stack = "megatron" .. how }, plan) }
      local quantised = (e.stages[1].quantised_bytes or 0) ~= 0
      assert.equal(quantised, e.memory[1].source:find("quantised as the stack", 1, true) ~= nil)
      return e.stages[1].weight_bytes
    end
    local plain = weights("dgx_h100", "bf16", "")
    -- Bytes of one weight beyond its 16 bits: beside, only and single.
    for case, bytes in pairs { ["dgx_h100 fp8"] = { 2, 0, -1 }, ["dgx_h100 fp8_block"] = { 2, 0, -1 },
      ["dgx_b200 fp8"] = { 1, -1, -1 }, ["gb300_nvl72 mxfp8"] = { 2 + 1 / 16, 1 / 16, 1 / 16 },
      ["dgx_b200 nvfp4"] = { 9 / 8, 9 / 8 - 2, 9 / 8 - 2 },
      ["mi355x_node mxfp4"] = { 17 / 16, 17 / 16 - 2, 17 / 16 - 2 }, ["dgx_b200 bf16"] = { 0, 0, 0 } } do
      local cluster, dtype = case:match "(%S+) (%S+)"
      assert.near(bytes[1] * products, weights(cluster, dtype, "") - plain, 1, case)
      assert.near(bytes[2] * products, weights(cluster, dtype, ":quantised_weights=only") - plain, 1, case)
      assert.near(bytes[3] * products, weights(cluster, dtype, ":quantised_weights=single") - plain, 1, case)
      assert.near(plain, weights(cluster, dtype, ":quantised_weights=none"), 1, case)
      local sharded = { zero = 3 } -- weights are gathered and quantised for each layer
      assert.equal(weights(cluster, dtype, ":quantised_weights=none", sharded), weights(cluster, dtype, "", sharded))
    end
    -- One rank has nothing to gather.
    assert.near(plain + 2 * products, weights("dgx_h100", "fp8", "", { dp = 1, zero = 3 }), 1)
    assert.near(plain / 2, weights("dgx_h100", "fp8", "", { zero = 3 }), 1)
    local function more(plan) -- frozen weights have copies, too; layers without a backward pass only one
      return weights("dgx_h100", "fp8", "", plan) - weights("dgx_h100", "fp8", ":quantised_weights=none", plan)
    end
    assert.near(2 * products, more { lora_rank = 8, lora_targets = { "linear_qkv" } }, 1e-3 * products)
    assert.near(2 * products - products / 12, more { frozen_layers = 1 }, 1)
    local frozen = { lora_rank = 8, lora_targets = { "linear_qkv" } }
    local one = weights("dgx_h100", "fp8", ":quantised_weights=single", frozen)
    assert.near(products, weights("dgx_h100", "fp8", ":quantised_weights=only", frozen) - one, 1e-3 * products)
  end)

  it("holds the logits and their gradients as the loss of the stack does", function()
    -- Stored bytes per logit, and further ones of its gradient.
    for stack, bytes in pairs { megatron = { 2, 0 }, torchtitan = { 2, 2 }, llm_foundry = { 2, 2 },
      fsdp_eager = { 4, 8 }, megatron_2021 = { 4, 2 } } do
      local plan = { tp = 1, sequence_parallel = false, dp = 1, micro_batches = 1, seq = 8192 }
      local s, logits = run(plan, stack).stages[1], 8192.0 * 128256
      assert.near(bytes[1] * logits, s.loss_bytes, 1, stack)
      local head = 2 * 128256 * h + 2 * 8192 * h -- the head's gradients of weight and input
      assert.near(math.max(bytes[2] * logits, head), s.working_bytes, 1, stack)
    end
  end)

  it("has the cached weight gradients of the shapes on its stage, each once", function()
    local function cached(pp)
      local e = estimate.new { cluster = "dgx_h100", model = model_module.new("mixtral", { layers = 8, hidden = 1024,
        heads = 16, kv_heads = 8, ffn = 4096, moe_ffn = 512, vocab = 32000, experts = 8, top_k = 2,
        first_dense_layers = 2 }), plan = { seq = 1024, pp = pp, micro_batches = 4, stack = "megatron_moe" } }
      local list = {}
      for i, stage in ipairs(e.stages) do list[i] = stage.cached_bytes end
      return list
    end
    local attention, dense = 2 * (1024 * (1024 + 2 * 512) + 1024 * 1024), 2 * 3 * 1024 * 4096
    local whole, stages = cached(1)[1], cached(4)
    assert.near(attention + dense, stages[1], 1)
    assert.same({ stages[2], stages[2] }, { stages[3], stages[4] })
    assert.near(whole, stages[2] + dense, 1)
    assert.is_true(stages[2] > attention)
    -- 64 numbers: shapes of the last one are counted together.
    local operations = { { cached_shape = 1, cached_bytes = 10 }, { cached_shape = 2, cached_bytes = 5 },
      { cached_shape = 2 }, { cached_shape = 64, cached_bytes = 7 }, { cached_shape = 64, cached_bytes = 8 } }
    local kinds = { { place = "middle", count = 2, uses = { [1] = 1 } },
      { place = "middle", count = 2, uses = { [2] = 3, [3] = 1 } },
      { place = "middle", count = 2, uses = { [1] = 2, [4] = 1 } } }
    local _, held = held_by(operations, kinds, "none", 3)
    assert.same({ 10, 5, 25 }, { held[1].cached_bytes, held[2].cached_bytes, held[3].cached_bytes })
    assert.equal(30, select(2, held_by(operations, kinds))[1].cached_bytes)
    for _, number in ipairs { -1, 65 } do
      operations[1].cached_shape = number
      assert.has_error(function() held_by(operations, kinds) end,
        ("operation '?': field 'cached_shape' must be 0 to 64, got %d"):format(number))
    end
  end)

  it("counts a communicator for each group of ranks", function()
    local function groups(plan) return run(plan).stages[1].communicator_bytes / 0.25e9 end
    assert.equal(0, groups { tp = 1, dp = 1, sequence_parallel = false })
    assert.equal(1, groups { tp = 4, dp = 1 })
    assert.equal(3, groups { tp = 4, dp = 2 }) -- and one of all ranks
    assert.equal(5, groups { tp = 4, dp = 2, pp = 2 }) -- and one of the gradients' norm
    assert.equal(6, groups { tp = 4, dp = 2, pp = 2, cp = 2 })
  end)

  it("copies gradients to buckets without ZeRO and with replicas, where the stack does", function()
    local function added(plan)
      local stage, other = run(plan, "plain:copies_gradients").stages[1], run(plan, "plain").stages[1]
      assert.equal(stage.cached_bytes - other.cached_bytes, stage.allocated_bytes - other.allocated_bytes)
      return (stage.cached_bytes - other.cached_bytes) / stage.gradient_bytes
    end
    assert.equal(1, added { dp = 2, zero = 0, sequence_parallel = false })
    assert.equal(0, added { dp = 1, zero = 0, sequence_parallel = false })
    assert.equal(0, added { dp = 2, zero = 1, sequence_parallel = false })
    local plan = { dp = 2, zero = 0, sequence_parallel = false } -- FSDP's NO_SHARD has no buckets
    local stage = run(plan, "transformers").stages[1]
    assert.equal(stage.gradient_bytes, stage.cached_bytes - run(plan, "transformers_fsdp").stages[1].cached_bytes)
  end)

  it("keeps 16-bit gradients beside fp32 ones, and outputs of stages, where the stack does", function()
    local plan = { pp = 2, dp = 1, sequence_parallel = false }
    local plain, deepspeed = run(plan, "megatron_2021").stages[1], run(plan, "megatron_deepspeed").stages[1]
    assert.near(2 * plain.parameters, deepspeed.cached_bytes - plain.cached_bytes, 1)
    local dropped = run(plan, "megatron_deepspeed:keeps_outputs=false").stages[1]
    assert.near(2 * 2 * tokens * h, deepspeed.activation_bytes - dropped.activation_bytes, 1) -- two in flight
    plan.offload_activations = 1 -- moves saved tensors alone
    local moved = run(plan, "megatron_deepspeed").stages[1]
    local less = run(plan, "megatron_deepspeed:keeps_outputs=false").stages[1]
    assert.near(2 * 2 * tokens * h, moved.activation_bytes - less.activation_bytes, 1)
    assert.equal(less.host_bytes, moved.host_bytes)
    plan.offload_activations = nil
    local function held(stack, stage)
      return run({ pp = 2, dp = 2, zero = 3, sequence_parallel = true }, stack).stages[stage].activation_bytes
    end
    for _, stack in ipairs { "torchtitan", "fsdp_eager" } do -- a slice of the sequence on each tensor rank
      assert.near(2 * 2 * tokens * h / t, held(stack, 1) - held(stack .. ":keeps_outputs=false", 1), 1)
      assert.equal(held(stack, 2), held(stack .. ":keeps_outputs=false", 2))
    end
    for _, zero in ipairs { 2, 3 } do -- which shard gradients
      plan.zero = zero
      assert.equal(run(plan, "megatron_2021").stages[1].cached_bytes,
        run(plan, "megatron_deepspeed").stages[1].cached_bytes)
    end
  end)
end)

describe("weight gradients of their own units", function()
  local tokens, h, f, heads, layers = 1024.0, 1024, 2816, 16, 4 -- layers of a stage
  local function run(plan, more)
    local hyper = merged({ layers = 4 * layers, hidden = h, heads = heads, ffn = f, vocab = 32000 }, more)
    local all = merged({ seq = 1024, micro_batches = 16, pp = 4, fused_accumulation = true, stack = "plain" }, plan)
    return estimate.new { model = model_module.new(hyper.norm and "gpt" or "llama", hyper), cluster = "dgx_h100",
      plan = all, profile = false, units = true }
  end

  -- Bytes of a layer and micro-batch: its input; inputs of the products; gradients of their outputs; all that a layer
  -- without recomputation stores (with the statistics of attention).
  local input = 2 * tokens * h
  local inputs, gradients = 2 * tokens * (3 * h + f), 2 * tokens * (3 * h + h + 2 * f + h)
  local whole = inputs + gradients + 4 * tokens * heads

  --- The most bytes in the order of a stage. chunk: layers of a chunk.
  local function walked_units(units, chunk, held)
    local now, most = 0.0, 0.0
    for _, unit in ipairs(units) do
      if unit[1] == "F" then
        now = now + chunk * held
      elseif unit[1] == "W" then
        now = now - chunk * (inputs + gradients)
      else -- one layer at a time runs again
        most = math.max(most, now + whole - held)
        now = now + chunk * ((unit[1] == "B" and inputs + gradients or 0) - held)
      end
      most = math.max(most, now)
    end
    return most
  end

  it("hold inputs of products and gradients of their outputs from B to W, recomputed or not", function()
    for _, case in ipairs { { "zb_h1", 1 }, { "zb_h2", 1 }, { "zb_v", 2 }, { "interleaved_zb", 2 } } do
      for how, held in pairs { none = whole, selective = inputs + gradients, full = input } do
        local e = run { schedule = case[1], vp = case[2], recompute = how }
        for stage = 2, 3 do -- without embedding and head
          local wanted = walked_units(e.units[stage], layers // case[2], held)
          if how ~= "full" then wanted = wanted - (whole - held) end
          assert.is_true(math.abs(e.stages[stage].activation_bytes / wanted - 1) < 1e-9,
            ("%s, %s, stage %d: wanted %.9g, got %.9g"):format(case[1], how, stage, wanted,
              e.stages[stage].activation_bytes))
        end
      end
    end
  end)

  it("leave the last stage of zb_h1 as full as without recomputation: three micro-batches wait for W", function()
    local function last(how, more, modules)
      return run({ schedule = "zb_h1", recompute = how, recompute_modules = modules }, more).stages[4].activation_bytes
    end
    local none = last "none"
    assert.is_true(none - last "full" >= 0 and none - last "full" <= 4 * layers * 4 * tokens * heads)
    assert.is_true(math.abs(last("selective", nil, { "mlp" }) / none - 1) < 0.01)
    -- No weight gradient needs the probabilities of an unfused attention: one of four micro-batches holds them.
    local unfused = { norm = "layer_norm", attention = "fused_softmax", dropout = true }
    assert.is_true(last("full", unfused) <= last("selective", unfused) + 5 * tokens * tokens * heads) -- one layer's
    assert.equal(layers * 5 * tokens * tokens * heads, last("none", unfused) - last("selective", unfused))
  end)

  it("may all be late in an order by the units' times", function()
    for how, held in pairs { none = whole, full = input } do
      local late = inputs + gradients
      local others, own = 3 * layers * math.max(held, late), math.max(layers * late, layers * held + whole - held)
      assert.equal(others + own, run({ schedule = "zb_1p", recompute = how }).stages[2].activation_bytes)
    end
  end)
end)

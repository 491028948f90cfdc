--- Frozen weights and LoRA's adapters, against formulas by hand and a profile whose times are FLOPs alone.
local command = require "command"
local estimate = require "ett.step.estimate"
local exactly = require "exactly"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local plan = require "ett.plan"
local random_plans = require "random_plans"
local timeline = require "ett.step.timeline"

local layers, hidden, ffn, vocab, tokens = 6, 1024, 2816, 32000, 1024

local function model() return random_plans.llama(layers) end

--- One second for 1e12 FLOPs; adds and norms cost nothing.
local flops_alone = {
  operator = function(_, name, shape, _, pass)
    local op = require("ett.operator").get(name)
    return exactly(op.family == "gemm" and op.flops(shape, pass) / 1e12 or 0.0)
  end,
  collective = function() return exactly(0.0) end,
}

--- One second for 1e12 bytes that move.
local bytes_alone = {
  operator = function() return exactly(0.0) end,
  collective = function(_, _, bytes) return exactly(bytes / 1e12) end,
}

local function of(fields, profile)
  return estimate.new { model = model(), plan = merged({ seq = tokens, micro_batches = 2, fused_accumulation = true },
    fields), cluster = random_plans.flat, profile = profile or flops_alone, interval = false }
end

-- Weights of a layer's products, and of the model.
local products = { linear_qkv = { hidden, 3 * hidden }, linear_proj = { hidden, hidden },
  linear_up = { hidden, 2 * ffn }, linear_down = { ffn, hidden } }
local in_products = 0
for _, s in pairs(products) do in_products = in_products + s[1] * s[2] end
local head = vocab * hidden

describe("LoRA", function()
  it("trains the adapters alone: r (k + n) of each target", function()
    local rank, all = 16, 0
    for _, s in pairs(products) do all = all + rank * (s[1] + s[2]) end
    local stage = of({ lora_rank = rank }).stages[1]
    local whole = of({}).stages[1].parameters
    assert.equal(layers * all, stage.parameters)
    assert.equal(whole, stage.frozen_parameters)
    assert.equal(2 * (whole + layers * all), stage.weight_bytes)
    assert.equal(4 * layers * all, stage.gradient_bytes)
    assert.equal(12 * layers * all, stage.optimizer_bytes)
    local one = of({ lora_rank = rank, lora_targets = { "linear_up" } }).stages[1]
    assert.equal(layers * rank * (hidden + 2 * ffn), one.parameters)
    -- PEFT: queries, keys, values, gate and up have adapters of their own. They store their input once.
    local apart = of({ lora_rank = rank, stack = "transformers" }).stages[1]
    local together = of({ lora_rank = rank, stack = "transformers:separate_projections=false" }).stages[1]
    assert.equal(layers * all, together.parameters)
    assert.equal(layers * (all + 3 * rank * hidden), apart.parameters)
    assert.equal(layers * 3 * rank * tokens * 2, apart.activation_bytes - together.activation_bytes)
  end)

  it("computes only the input gradient of a frozen product", function()
    local rank = 8
    local s = products.linear_proj
    -- Model FLOPs of two micro-batches: frozen products have no weight gradient, adapters have all three products.
    assert.near(2 * 2 * tokens * (layers * in_products + head) - 2 * 6 * tokens * layers * rank * (s[1] + s[2]),
      of({}).model_flops_per_step - of({ lora_rank = rank, lora_targets = { "linear_proj" } }).model_flops_per_step, 1)
    local padded = require("ett.operator.shapes").padded_vocab(vocab, 1) * hidden
    local e = of { lora_rank = rank, lora_targets = { "linear_proj" } }
    local frozen = 4 * tokens * (layers * in_products + padded)
    local adapters = 6 * tokens * layers * rank * (s[1] + s[2])
    assert.near(2 * (frozen + adapters) / 1e12, e.step_seconds, 1e-9)
    assert.near(2 * 6 * tokens * (layers * in_products + padded) / 1e12, of({}).step_seconds, 1e-9)
  end)

  it("multiplies each output of an adapter by a number, and its gradient", function()
    local e = of({ lora_rank = 8, lora_targets = { "linear_up" } }, { collective = flops_alone.collective,
      operator = function(_, name, shape, _, pass)
        local op = require("ett.operator").get(name)
        return exactly(name == "residual_add" and op.beside_bytes(shape, pass, "bf16", { norm = "te" }) / 1e12 or 0.0)
      end })
    assert.near(2 * 2 * 4 * tokens * layers * 2 * ffn / 1e12, e.step_seconds, 1e-12)
    local function seconds(stack, dtype, multiplied)
      return require("ett.profile.device_times").new(require("ett.profile.device").get "a100_sxm",
        require("ett.operator.stack").get(stack)):operator("residual_add", { tokens = 1 << 15, hidden = 4096,
        multiplied = multiplied }, dtype, "backward").seconds
    end
    for _, stack in ipairs { "transformers", "torchtitan", "maxtext" } do
      for _, dtype in ipairs { "bf16", "fp32" } do -- 5 values for each of 3, unless a compiler fuses
        assert.near(stack == "transformers" and 5 / 3 or 1, seconds(stack, dtype, 1) / seconds(stack, dtype), 0.01)
      end
    end
  end)

  it("keeps the inputs of its targets and of no other product", function()
    local function kept(fields) return of(fields).stages[1].activation_bytes end
    local none = kept { lora_rank = 8, lora_targets = { "linear_proj" } }
    local both = kept { lora_rank = 8, lora_targets = { "linear_proj", "linear_down" } }
    assert.equal(2 * tokens * layers * (ffn + 8), both - none)
  end)

  it("with dropout keeps a mask and an input of its own for each adapter, and of attention the output too", function()
    local function run_of(targets, dropout, stack)
      local e = of { lora_rank = 8, lora_targets = targets, lora_dropout = dropout, stack = stack }
      local runs = 0
      for _, o in ipairs(e.operators) do runs = runs + (o.name == "dropout" and o.runs_per_micro_batch or 0) end
      return e.stages[1].activation_bytes / tokens / layers, runs / layers
    end
    for _, case in ipairs { { { "linear_down" }, ffn, 1, "plain" }, { { "linear_qkv" }, hidden, 1, "plain" },
      { { "linear_qkv" }, (3 * 3 - 2) * hidden, 3, "transformers" }, { { "linear_proj" }, 3 * hidden, 1, "plain" } } do
      local before, none = run_of(case[1], 0, case[4])
      local after, runs = run_of(case[1], 0.1, case[4])
      assert.same({ case[2], 0, case[3] }, { after - before, none, runs }, case[1][1])
    end
  end)

  it("keeps the output of attention, which its backward pass reads, once", function()
    local function kept(targets) return of({ lora_rank = 8, lora_targets = targets }).stages[1].activation_bytes end
    -- The adapter of linear_proj adds the rank alone; that of linear_qkv the rank and the norm's output.
    assert.equal(2 * tokens * layers * 8, kept { "linear_qkv", "linear_proj" } - kept { "linear_qkv" })
  end)

  it("shards frozen weights under ZeRO-3 and reduces no gradient of them", function()
    local whole = of { lora_rank = 16, dp = 4 }
    local sharded = of { lora_rank = 16, dp = 4, zero = 3 }
    assert.near(whole.stages[1].weight_bytes / 4, sharded.stages[1].weight_bytes, 1)
    local reduced = 0
    local e = of({ lora_rank = 16, dp = 4 }, { operator = flops_alone.operator, collective = function(_, _, bytes)
      reduced = reduced + bytes
      return exactly(0.0)
    end })
    assert.is_true(reduced > 0 and reduced <= 4 * e.stages[1].parameters + 16, reduced)
  end)

  it("gathers the low rank over tensor ranks, and no input for weight gradients", function()
    local function bytes(fields)
      local sum = 0
      for _, c in ipairs(of(fields, bytes_alone).collectives) do
        if c.group == "tp" then sum = sum + c.seconds * 1e12 end
      end
      return sum
    end
    local base = { tp = 2, sequence_parallel = true }
    local lora = { tp = 2, sequence_parallel = true, lora_rank = 16, lora_targets = { "linear_qkv" } }
    local own = 2 * layers * 2 * 2 * tokens * 16 -- 16-bit elements, both passes of two micro-batches
    local again = 2 * (layers + 1) * 2 * tokens * hidden -- the second gathers before linear_up and lm_head
    local before = bytes(base)
    assert.near(before + own - again, bytes(lora), before * 1e-9)
  end)

  it("takes less memory and time than full training, with every schedule and layout", function()
    for _, p in ipairs(random_plans.plans(60, 11, model())) do
      local whole = estimate.new { model = model(), plan = random_plans.with(p, {}), cluster = random_plans.flat,
        profile = random_plans.profile() }
      local lora = estimate.new { model = model(), plan = random_plans.with(p, { lora_rank = 4 }),
        cluster = random_plans.flat, profile = random_plans.profile() }
      assert.is_true(lora.memory_bytes < whole.memory_bytes)
      -- Over tensor ranks the adapters' small messages may cost more than is saved of so small a model.
      if p.tp == 1 then assert.is_true(lora.step_seconds < whole.step_seconds) end
    end
  end)
end)

describe("layers that a model freezes", function()
  local blocks = require "ett.model.blocks"

  -- A decoder with lists of layers before, in the middle and after the trained ones.
  local function decoder(kinds)
    local folder = command.folder()
    command.write(folder, "own.lua", ([[
      local blocks = require "ett.model.blocks"
      return { schema = {}, build = function(h)
        h.norm, h.gated_mlp, h.position = "rms_norm", true, "rope"
        local list = {}
        for i, kind in ipairs { %s } do
          local layer = blocks.dense_layers(h)[1]
          layer.count, layer.name, layer.frozen = 1, "layer " .. i, kind ~= "" and kind or nil
          list[i] = layer
        end
        return blocks.decoder(h, table.unpack(list))
      end }]]):format(kinds))
    return model_module.new(folder .. "/own.lua", { layers = 3, hidden = hidden, heads = 16, ffn = ffn, vocab = vocab })
  end

  local function run(kinds, fields)
    return estimate.new { model = decoder(kinds), cluster = random_plans.flat, profile = flops_alone, interval = false,
      plan = merged({ seq = tokens, micro_batches = 2, fused_accumulation = true }, fields or {}) }
  end
  local padded = require("ett.operator.shapes").padded_vocab(vocab, 1) * hidden
  local norms = 2 * hidden

  it("run forward alone, with whole weights and without gradients, states and activations", function()
    local one = 2 * tokens * in_products / 1e12
    local whole, reference = run '"", "", ""', run '"", "layer", ""'
    assert.near(2 * (3 * 3 * one + 6 * tokens * padded / 1e12), whole.step_seconds, 1e-9)
    assert.near(2 * 2 * one, whole.step_seconds - reference.step_seconds, 1e-9)
    local before, stage = whole.stages[1], reference.stages[1]
    assert.equal(in_products + norms, stage.frozen_parameters)
    assert.equal(before.weight_bytes, stage.weight_bytes)
    assert.equal((4 + 12) * (in_products + norms), before.gradient_bytes + before.optimizer_bytes
      - stage.gradient_bytes - stage.optimizer_bytes)
    assert.near(before.activation_bytes - before.loss_bytes, (stage.activation_bytes - stage.loss_bytes) * 3 / 2,
      before.activation_bytes / 100)
    -- Recomputation does not repeat them.
    assert.near(2 * one, run('"", "", ""', { recompute = "full" }).step_seconds - whole.step_seconds - 4 * one, 1e-9)
    assert.near(2 * 2 * one, run('"", "layer", ""', { recompute = "full" }).step_seconds - reference.step_seconds, 1e-9)
  end)

  it("of frozen weights pass the gradient on, unless no layer below is trained", function()
    local one = 2 * tokens * in_products / 1e12
    local whole = run('"", "", ""').step_seconds
    assert.near(2 * one, whole - run('"", "weights", ""').step_seconds, 1e-9)
    assert.near(2 * one, whole - run('"weights", "", ""').step_seconds, 1e-9) -- the embedding below is trained
    assert.near(2 * 2 * one, whole - run('"layer", "", ""', { frozen_layers = 1 }).step_seconds, 1e-9)
    assert.equal("layer", require("ett.step.frozen").layers({ { name = "a", frozen = "weights", count = 1, ops = {},
      place = "middle" }, { name = "b", count = 1, ops = {}, place = "middle" } }, { frozen_layers = 0 })[1].frozen)
  end)

  it("are copies of any layers, with sizes of their own", function()
    local other = blocks.forward_only({ { name = "head", place = "last", count = 2, ops = { "rms_norm" } } },
      { hidden = 7 })[1]
    assert.same({ "head (forward only)", "middle", 2, "layer", 7 }, { other.name, other.place, other.count,
      other.frozen, other.ops[1].with({}).hidden })
    local message = require "raised" (decoder, '"layers", ""')
    assert.matches("'frozen' must be one of layer, weights, got 'layers'", message, 1, true)
  end)
end)

describe("frozen weights of 4 or 8 bits", function()
  -- Of 64 weights: 32 bytes and an fp32 scale. Of 256 such blocks: 256 scales of a byte, and an fp32 scale.
  local bytes = { nf4 = 36 / 64, nf4_double = (256 * 33 + 4) / (256 * 64) }
  local function with(format, fields) return merged({ lora_rank = 16, frozen_weights = format }, fields or {}) end

  it("have bitsandbytes' bytes, and others their own", function()
    local wide, scales = of(with()).stages[1], 0
    for _, s in pairs(products) do scales = scales + 4 * s[2] end
    for format, each in pairs(bytes) do
      local stage = of(with(format)).stages[1]
      assert.near(wide.weight_bytes - layers * in_products * (2 - each), stage.weight_bytes, 1, format)
      assert.same({ wide.parameters, wide.frozen_parameters }, { stage.parameters, stage.frozen_parameters })
    end
    assert.near(wide.weight_bytes - layers * (in_products - scales), of(with "int8").stages[1].weight_bytes, 1)
  end)

  it("are sharded and gathered without their scales", function()
    for _, stack in ipairs { "plain", "transformers_fsdp" } do -- the second one shards trained weights in fp32
      local sharded = { dp = 4, zero = 3, stack = stack }
      local wide, narrow = of(with(nil, sharded)).stages[1], of(with("nf4", sharded)).stages[1]
      assert.near(wide.weight_bytes - layers * in_products * (1.5 / 4 - 4 / 64), narrow.weight_bytes, 1, stack)
    end
    local host = random_plans.with(random_plans.flat, { host = { bandwidth = 1e12, source = "made up" } })
    for _, how in ipairs { { zero = 3, dp = 4 }, { offload_weights = 1 } } do
      local function read(format)
        local e = estimate.new { model = model(), cluster = host, profile = bytes_alone, units = true,
          plan = merged({ seq = tokens, micro_batches = 1, fused_accumulation = true }, with(format, how)) }
        local drawn = 0.0
        for _, m in ipairs(timeline.of(e).stages[1].messages) do
          if m.lane == (how.zero and "weights" or "from host") then drawn = drawn + m.bytes end
        end
        return drawn, e.stages[1].micro_batch_forward_seconds * 1e12, e.stages[1].host_bytes
      end
      local drawn, seconds, wide = read()
      local fewer, shorter, narrow = read "nf4"
      if how.offload_weights then assert.near(layers * in_products * 1.5, wide - narrow, 16) end -- scales stay
      assert.near(2 * layers * in_products * 1.5, drawn - fewer, 16)
      assert.near(layers * in_products * 1.5, seconds - shorter, 16)
    end
  end)

  it("are copied to 16 bits before each product of each pass", function()
    local moved = { operator = function(_, name, shape, dtype, pass)
      return exactly(name == "dequantise" and require("ett.operator").get(name).bytes(shape, dtype, pass) / 1e12 or 0.0)
    end, collective = flops_alone.collective }
    -- nf4_double: a kernel reads the scales and writes them in fp32, a second one adds the offset, a third reads them.
    local each = { nf4 = 36 / 64 + 2, nf4_double = bytes.nf4_double + 4 * 4 / 64 + 2 }
    for format, wanted in pairs(each) do
      for recompute, passes in pairs { none = 2, full = 3 } do
        local e = of(with(format, { recompute = recompute }), moved)
        assert.near(2 * passes * layers * in_products * wanted / 1e12, e.step_seconds, 1e-12, format)
      end
      local e = of(with(format, { recompute = "selective", recompute_modules = { "mlp" } }), moved)
      assert.near(2 * layers * (2 * in_products + 3 * ffn * hidden) * wanted / 1e12, e.step_seconds, 1e-12, format)
    end
    local int8 = 0 -- casts of inputs and outputs; a copy, which is scaled
    for _, s in pairs(products) do int8 = int8 + tokens * (3 * s[1] + 6 * s[2]) + 7 * s[1] * s[2] end
    assert.near(2 * layers * int8 / 1e12, of(with "int8", moved).step_seconds, 1e-12)
  end)

  it("hold one copy at a time, during its product, and gather a layer in 4 bits", function()
    local function of_small(format)
      local small = model_module.new("llama", { layers = 2, hidden = hidden, heads = 16, ffn = ffn, vocab = 512 })
      return estimate.new { model = small, cluster = random_plans.flat, profile = flops_alone, interval = false,
        plan = merged({ seq = 64, micro_batches = 1, fused_accumulation = true, dp = 4, zero = 3 }, with(format))
      }.stages[1]
    end
    local wide, narrow = of_small(), of_small "nf4"
    local copy = 2 * 2 * ffn * hidden -- of the largest weight, linear_up
    assert.near(copy, narrow.working_bytes - wide.working_bytes, copy / 5) -- without it another operator is the largest
    assert.near(1.5 * in_products, wide.temporary_bytes - narrow.temporary_bytes, 1)
  end)

  it("keep inputs of products under older releases, of two micro-batches if a variable holds the graph", function()
    local function run(copies, fields)
      local stack = ("plain:quantised_inputs=%d"):format(copies)
      return of(with("nf4", merged({ lora_targets = { "linear_qkv" }, stack = stack }, fields or {})))
    end
    local function held(copies, fields) return run(copies, fields).stages[1].activation_bytes end
    local inputs = 0
    for _, s in pairs(products) do inputs = inputs + 2 * layers * tokens * s[1] end
    local attended, adapted = 2 * layers * tokens * hidden, 2 * layers * tokens * hidden
    -- Attention stores its output and the adapter its input, unless dropout gives it another tensor.
    assert.near(inputs - attended - adapted, held(1) - held(0), 1)
    assert.near(2 * inputs - attended - adapted, held(2) - held(0), 1)
    local dropped = { lora_dropout = 0.1 }
    assert.near(2 * inputs - attended, held(2, dropped) - held(0, dropped), 1)
    for _, fields in ipairs { { frozen_weights = "int8" }, { frozen_weights = "none" } } do
      assert.equal(held(0, fields), held(2, fields))
      assert.truthy(table.concat(run(2, fields).warnings, "\n"):find("quantised_inputs has no effect", 1, true))
    end
    assert.falsy(table.concat(run(2).warnings, "\n"):find("quantised_inputs", 1, true))
  end)

  it("are refused where bitsandbytes has none, with the reason", function()
    for message, fields in pairs {
      ["frozen_weights = 'nf4' needs lora_rank"] = { frozen_weights = "nf4" },
      ["frozen_weights = 'nf4' needs tp = 1, got 2: bitsandbytes does not split quantised weights"] =
        with("nf4", { tp = 2 }),
      ["frozen_weights = 'nf4' needs a dtype of at least 16 bits, such as bf16, got 'fp8'"] =
        with("nf4", { dtype = "fp8" }),
      ["frozen_weights = 'int8' needs zero of at most 2, got 3"] = with("int8", { dp = 2, zero = 3 }),
      ["frozen_weights.*nf4_double.*nf5"] = with "nf5",
    } do
      local ok, raised = pcall(of, fields)
      assert.is_false(ok)
      assert.matches(message, tostring(raised))
    end
    assert.equal(of(with(nil, { tp = 2 })).memory_bytes, of(with("none", { tp = 2 })).memory_bytes)
  end)
end)

describe("frozen layers", function()
  it("have no backward pass, no activations and no states", function()
    local padded = require("ett.operator.shapes").padded_vocab(vocab, 1) * hidden
    for count = 1, layers do
      local e = of { frozen_layers = count }
      local forward, trained = 2 * tokens * (layers * in_products + padded),
        4 * tokens * ((layers - count) * in_products + padded)
      assert.near(2 * (forward + trained) / 1e12, e.step_seconds, 1e-9)
      local norms = 2 * (layers - count) * hidden + hidden
      assert.equal((layers - count) * in_products + norms + head, e.stages[1].parameters)
      assert.equal(count * (in_products + 2 * hidden) + head, e.stages[1].frozen_parameters)
    end
    assert.is_true(of({ frozen_layers = 3 }).stages[1].activation_bytes < of({}).stages[1].activation_bytes * 0.7)
  end)

  it("leave a frozen stage without backward pass and trained parameters", function()
    local e = of { frozen_layers = 3, pp = 2 }
    assert.equal(0, e.stages[1].backward_seconds)
    assert.is_true(e.stages[2].backward_seconds > 0)
    assert.equal(0, e.stages[1].parameters)
  end)

  it("need no weights in the backward pass: no gather, no transfer from the host", function()
    local padded = require("ett.operator.shapes").padded_vocab(vocab, 1) * hidden
    local cluster = random_plans.with(random_plans.flat, { host = { bandwidth = 1e12, source = "made up" } })
    --- Bytes of weights, drawn in units of a kind, and those by which a backward pass lasts longer.
    local function read(fields, kind)
      local p = merged({ seq = tokens, micro_batches = 2, fused_accumulation = true }, fields)
      local e = estimate.new { model = model(), plan = p, cluster = cluster, profile = bytes_alone, units = true }
      local drawn, stage, lane = 0.0, timeline.of(e).stages[1], p.zero == 3 and "weights" or "from host"
      for _, m in ipairs(stage.messages) do
        for _, u in ipairs(m.lane == lane and stage.units or {}) do
          local at = m.start + m.seconds / 2
          if u.kind == kind and u.start < at and at < u.start + u.seconds then drawn = drawn + m.bytes end
        end
      end
      return drawn / 2, e.stages[1].micro_batch_backward_seconds * 1e12
    end
    for _, count in ipairs { 0, 4, layers } do
      local all = layers * (in_products + 2 * hidden) + hidden + 2 * padded
      local trained = all - (count > 0 and count * (in_products + 2 * hidden) + padded or 0)
      for _, how in ipairs { { zero = 3, dp = 4 }, { offload_weights = 1 } } do
        how.frozen_layers = count
        assert.near(2 * all, read(how, "F"), 16)
        local drawn, waits = read(how, "B")
        assert.near(2 * trained, drawn, 16)
        assert.near(2 * trained, waits, 16)
      end
      assert.near(0, select(2, read({ zero = 3, dp = 4, reshard = false, frozen_layers = count }, "B")), 1e-3)
    end
  end)
end)

describe("gradients under ZeRO-3", function()
  it("are reduced by layer, without the frozen layers", function()
    local each = { operator = bytes_alone.operator, collective = function(_, kind)
      return exactly(kind == "reduce_scatter" and 1.0 or 0.0)
    end }
    for _, count in ipairs { 0, 2, layers } do
      local trained = layers - count + (count > 0 and 1 or 2) -- with the head, and the embedding
      for _, stage in ipairs(of({ zero = 3, dp = 4, frozen_layers = count }, each).stages) do
        assert.equal(2 * trained, stage.gradient_seconds)
      end
    end
  end)
end)

describe("a frozen embedding", function()
  local padded = require("ett.operator.shapes").padded_vocab(vocab, 1) * hidden
  local function run(hyper, fields, profile)
    local p = merged({ seq = tokens, micro_batches = 2, fused_accumulation = true, frozen_layers = layers }, fields)
    return estimate.new { model = model_module.new("llama", merged({ layers = layers, hidden = hidden, heads = 16,
      ffn = ffn, vocab = vocab }, hyper)), plan = p, cluster = random_plans.flat, profile = profile or flops_alone }
  end
  local function sums(e)
    local trained, whole = 0, 0
    for _, stage in ipairs(e.stages) do
      trained, whole = trained + stage.parameters, whole + stage.parameters + stage.frozen_parameters
    end
    return trained, whole
  end

  it("freezes a tied head, and its copy on the last stage", function()
    local inside = layers * (in_products + 2 * hidden)
    for case, wanted in pairs { ["1 1f1b 1"] = padded, ["2 1f1b 1"] = 2 * padded, ["2 zb_v 2"] = padded } do
      local pp, schedule, vp = case:match "(%d) (%S+) (%d)"
      local e = run({ tied_embeddings = true }, { pp = tonumber(pp), schedule = schedule, vp = tonumber(vp) })
      local trained, whole = sums(e)
      assert.equal(hidden, trained, case) -- the last norm
      assert.equal(inside + wanted + hidden, whole, case)
      assert.equal(0, e.stages[1].tied_embedding_seconds)
    end
  end)

  it("leaves its head without weight gradients", function()
    local forward = 2 * tokens * (layers * in_products + padded)
    for tied, products_again in pairs { [true] = 1, [false] = 2 } do
      local e = run({ tied_embeddings = tied }, {})
      assert.near(2 * (forward + products_again * 2 * tokens * padded) / 1e12, e.step_seconds, 1e-9)
    end
    local function gathered(tied)
      local sum = 0
      for _, c in ipairs(run({ tied_embeddings = tied }, { tp = 2, sequence_parallel = true }, bytes_alone)
        .collectives) do
        if c.group == "tp" then sum = sum + c.seconds * 1e12 end
      end
      return sum
    end
    local again = 2 * 2 * tokens * hidden -- the second gather before the head, of two micro-batches
    assert.near(gathered(false) - again, gathered(true), 1)
  end)

  it("freezes the lookups of multi-token prediction, and their copy", function()
    for _, tied in ipairs { true, false } do
      local h = { tied_embeddings = tied, mtp_layers = 1 }
      local trained, whole = sums(run(h, {}))
      local of_stages, whole_of_stages = sums(run(h, { pp = 2 }))
      assert.equal(trained, of_stages)
      assert.equal(whole + padded, whole_of_stages)
      for _, line in ipairs(run(h, {}).operators) do
        if line.name == "shared_embedding" then assert.equal(0, line.backward_seconds) end
      end
    end
  end)
end)

--- Every operator and collective takes a second.
local seconds_alone = {
  operator = function() return exactly(1.0) end,
  collective = function() return exactly(1.0) end,
}

describe("recomputation of frozen layers", function()
  --- Seconds of a step, of recomputation in each stage, and of repeated parts in the timeline of stage 1.
  local function repeated(fields)
    local p = merged({ seq = tokens, micro_batches = 2, fused_accumulation = true, tp = 2 }, fields)
    local e = estimate.new { model = model(), plan = p, cluster = random_plans.flat, profile = seconds_alone,
      units = true }
    local stages, drawn, lines = {}, 0.0, 0.0
    for i, stage in ipairs(e.stages) do stages[i] = stage.recompute_seconds end
    for _, unit in ipairs(timeline.of(e).stages[1].units) do
      for _, part in ipairs(unit.kind == "B" and unit.parts or {}) do
        drawn = drawn + (part.pass == "forward" and part.seconds or 0.0)
      end
    end
    for _, list in ipairs { e.operators, e.collectives } do
      for _, line in ipairs(list) do lines = lines + (line.recompute_seconds or 0.0) end
    end
    return e.step_seconds, stages, drawn, lines
  end

  for _, stack in ipairs { "plain", "torchtitan" } do -- half: every second layer, or every second product
    it("repeats nothing, under the stack " .. stack, function()
      local none = repeated { frozen_layers = layers, stack = stack }
      for _, how in ipairs { "selective", "policy", "full" } do
        local step, stages, drawn, lines = repeated { frozen_layers = layers, recompute = how, stack = stack }
        assert.equal(none, step, how)
        assert.same({ 0, 0, 0 }, { stages[1], drawn, lines }, how)
      end
    end)

    it("leaves the other layers as they were, under the stack " .. stack, function()
      for _, how in ipairs { "selective", "policy", "full" } do
        local _, whole = repeated { pp = 2, recompute = how, stack = stack }
        local _, stages, drawn, lines = repeated { frozen_layers = 3, pp = 2, recompute = how, stack = stack }
        assert.is_true(whole[2] > 0, how)
        assert.same({ 0, whole[2], 0 }, { stages[1], stages[2], drawn }, how)
        assert.near(whole[2] / 2, lines, 1e-9, how) -- of a device, the mean of both stages
      end
    end)
  end
end)

describe("an operator whose passes lack the backward pass", function()
  local folder = require "ett.base.folder"
  local find, operator = require "ett.base.find", require "ett.operator"

  it("has no backward time, stores nothing and counts its model FLOPs once", function()
    local place = command.folder()
    for name, passes in pairs { both = "", once = 'passes = { "forward" },' } do
      local file <close> = assert(io.open(("%s/probe_%s.lua"):format(place, name), "w"))
      file:write(([[
local op = { name = "probe_%s", summary = "s", family = "gemm", %s schema = { tokens = "count" } }
function op.shape(c) return { tokens = c.micro_batch * c.seq // c.cp } end
function op.flops(s, pass) return (pass == "backward" and 2.0 or 1.0) * s.tokens * 1e6 end
function op.bytes() return 1.0 end
function op.activation_bytes(s) return 8.0 * s.tokens end
function op.working_bytes(s) return 64e6 * s.tokens end
return op]]):format(name, passes))
    end
    find.set_script_folder(place)
    local function with(name)
      local built = model_module.new(function(h)
        local blocks = require "ett.model.blocks"
        return blocks.decoder(h, { name = "block", count = h.layers,
          ops = blocks.join("linear_up", "gelu", "linear_down", name) })
      end, { layers = layers, hidden = hidden, ffn = ffn, heads = 16, vocab = vocab })
      return estimate.new { model = built, plan = { seq = tokens, micro_batches = 2, fused_accumulation = true },
        cluster = random_plans.flat, profile = flops_alone }
    end
    local none, both, once = with(nil), with "probe_both", with "probe_once"
    find.set_script_folder(nil)
    operator.forget()
    folder.remove(place)
    local each = layers * 1e6 * tokens
    assert.near(2 * 3 * each / 1e12, both.step_seconds - none.step_seconds, 1e-12)
    assert.near(2 * each / 1e12, once.step_seconds - none.step_seconds, 1e-12)
    assert.near(2 * 3 * each, both.model_flops_per_step - none.model_flops_per_step, 1)
    assert.near(2 * each, once.model_flops_per_step - none.model_flops_per_step, 1)
    assert.equal(layers * 8.0 * tokens, both.stages[1].activation_bytes - none.stages[1].activation_bytes)
    assert.equal(none.memory_bytes, once.memory_bytes)
  end)
end)

describe("rules of frozen weights", function()
  it("name the error", function()
    for sentence, fields in pairs {
      ["lora_targets needs lora_rank"] = { lora_targets = { "linear_up" } },
      ["lora_rank and frozen_layers exclude each other"] = { lora_rank = 4, frozen_layers = 1 },
      ["frozen_layers = 7 must be at most the model's 6 layers"] = { frozen_layers = 7 },
      ["lora_targets: the model's layers have no product 'linear_uq' outside experts; did you mean 'linear_up'?; "
        .. "known are linear_down, linear_proj, linear_qkv, linear_up"] =
        { lora_rank = 4, lora_targets = { "linear_uq" } },
      ["lora_targets has the value linear_up twice"] =
        { lora_rank = 4, lora_targets = { "linear_up", "linear_qkv", "linear_up" } },
      ["field 'lora_rank' must be a positive integer, got 0"] = { lora_rank = 0 },
    } do
      fields.seq, fields.micro_batches = 1024, 2
      local found = plan.violations(fields, model(), random_plans.flat)
      assert.equal(sentence, found[1])
    end
    local mixture = model_module.new("mixtral", { layers = 2, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000,
      experts = 8, top_k = 2 })
    local found = plan.violations({ seq = 1024, micro_batches = 2, lora_rank = 4, lora_targets = { "expert_linear1" } },
      mixture, random_plans.flat)
    assert.matches("no product 'expert_linear1' outside experts", found[1])
    local scan = model_module.new("mamba", { layers = 2, hidden = 1024, vocab = 32000 })
    found = plan.violations({ seq = 1024, micro_batches = 2, lora_rank = 4 }, scan, random_plans.flat)
    assert.matches("lora_rank needs lora_targets: the model has none of linear_qkv, linear_proj, linear_up, "
      .. "linear_down; known are ", found[1])
  end)
end)

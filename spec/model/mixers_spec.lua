--- Layers beyond softmax attention over all tokens: scans, sparse and chunked attention, multi-token prediction,
--- encoders and encoder-decoders. Counts are made again here, loop by loop.
local architecture = require "ett.model.architecture"
local estimate = require "ett.step.estimate"
local exactly = require "exactly"
local host = require "ett.host"
local model_module = require "ett.model"
local operator = require "ett.operator"
local raised = require "raised"

local function items_of(model, layer, plan)
  local c = architecture.configuration(model.hyper, plan)
  local by_name, list = {}, architecture.operations(model.layers[layer], c)
  for _, item in ipairs(list) do by_name[item.name] = item end
  return by_name, list
end

local function names_of(list)
  local names = {}
  for _, item in ipairs(list) do names[#names + 1] = item.name .. (item.pass and " " .. item.pass or "") end
  return names
end

local function layers_of(model)
  local words = {}
  for i, layer in ipairs(model.layers) do words[i] = ("%s x%d"):format(layer.name, layer.count) end
  return table.concat(words, "; ")
end

--- Multiply-adds of a product of an m×k and a k×n matrix, counted one by one where it is small.
local function product(m, k, n)
  local count = 0
  for _ = 1, m do for _ = 1, n do count = count + k end end
  return count
end

describe("the FLOPs of a scan", function()
  it("of Mamba-2 are its products of each chunk", function()
    local s = { batch = 2, seq = 64, heads = 4, head_dim = 8, groups = 2, state = 16, chunk = 16 }
    local scores, rest = 0, 0
    for _ = 1, s.batch do
      for _ = 1, s.seq, s.chunk do
        for _ = 1, s.groups do scores = scores + product(s.chunk, s.state, s.chunk) end -- C B'
        for _ = 1, s.heads do
          rest = rest + product(s.chunk, s.chunk, s.head_dim) -- scores x
            + product(s.state, s.chunk, s.head_dim) -- B' x: the chunk's state
            + product(s.chunk, s.state, s.head_dim) -- C state
        end
      end
    end
    local op = operator.get "ssd_scan"
    assert.equal(2.0 * (scores + rest), op.flops(s, "forward"))
    local states = s.batch * s.seq / s.chunk * s.heads * product(s.state, s.chunk, s.head_dim)
    assert.equal(2.0 * (2 * (scores + rest) + scores + states), op.flops(s, "backward"))
    local k = op.kernel_shape(s)
    assert.is_true(math.abs(2 * k.m * k.n * k.k * k.batch / op.flops(s, "forward") - 1) < 0.03)
  end)

  it("of the gated delta rule are its products of each chunk", function()
    local s = { batch = 1, seq = 96, heads = 3, key_heads = 3, key_dim = 8, value_dim = 12, chunk = 12 }
    local count = 0
    for _ = 1, s.seq, s.chunk do
      for _ = 1, s.heads do
        count = count + 2 * product(s.chunk, s.key_dim, s.chunk) -- K K', Q K'
          + product(s.chunk, s.chunk, s.key_dim) + product(s.chunk, s.chunk, s.value_dim) -- the inverse times K and V
          + product(s.chunk, s.key_dim, s.value_dim) -- W state
          + product(s.key_dim, s.chunk, s.value_dim) -- K' U
          + product(s.chunk, s.key_dim, s.value_dim) -- Q state
          + product(s.chunk, s.chunk, s.value_dim) -- scores U
        for row = 1, s.chunk do -- substitution: row i of the inverse from the rows before it
          for before = 1, row - 1 do count = count + (row - before) end
        end
      end
    end
    local op = operator.get "gated_delta_rule"
    -- The inverse is counted as C^3 / 3; substitution of a unit triangle is (C^3 - C) / 6.
    local chunks = s.seq / s.chunk * s.heads
    local inverse = chunks * (s.chunk ^ 3 / 3 - (s.chunk ^ 3 - s.chunk) / 6)
    assert.is_true(math.abs(op.flops(s, "forward") - 2.0 * (count + inverse)) < 1e-6 * op.flops(s, "forward"))
  end)

  it("of linear attention are its products of each chunk", function()
    local s = { batch = 2, seq = 64, heads = 3, key_dim = 8, value_dim = 4, chunk = 16 }
    local scores, values, states, outputs = 0, 0, 0, 0
    for _ = 1, s.batch * s.heads * s.seq // s.chunk do
      scores = scores + product(s.chunk, s.key_dim, s.chunk) -- Q K'
      values = values + product(s.chunk, s.chunk, s.value_dim) -- scores V
      states = states + product(s.key_dim, s.chunk, s.value_dim) -- K' V
      outputs = outputs + product(s.chunk, s.key_dim, s.value_dim) -- Q state
    end
    local op, all = operator.get "lightning_attention", scores + values + states + outputs
    assert.equal(2.0 * all, op.flops(s, "forward"))
    assert.equal(2.0 * (2 * all + scores + states), op.flops(s, "backward"))
    local k = op.kernel_shape(s)
    assert.equal(op.flops(s, "forward"), 2.0 * k.m * k.n * k.k * k.batch)
    -- Queries, keys, values and outputs in 16 bits; states of 4 chunks in fp32, written and read; then decays in fp32.
    local tokens = 2 * 64 * 3
    assert.equal(2.0 * tokens * (8 + 8 + 4 + 4) + 4.0 * 2 * (2 * 3 * 4) * 8 * 4, op.bytes(s, "bf16", "forward"))
    local without = op.activation_bytes(s, "bf16")
    s.decays = 8
    assert.equal(without + 4.0 * tokens * 8, op.activation_bytes(s, "bf16"))
  end)

  it("take the time of flash-linear-attention's kernels, at a shape that its factors were not fitted to", function()
    -- Two sequences of 16384 tokens, 16 heads of 128: pytorch/helion@fea89d2 and @3e928d1, BENCHMARKS.md; milliseconds.
    local function near(name, device, pass, decays, low, high)
      local s = { batch = 2, seq = 16384, heads = 16, key_heads = 16, key_dim = 128, value_dim = 128, chunk = 64,
        decays = decays }
      local found = 1e3 * operator.get(name).law(s, device, pass)
      assert.is_true(0.6 * low < found and found < 1.5 * high, ("%s %s %g"):format(name, pass, found))
    end
    local h100 = dofile(host.root .. "/clusters/devices/h100_sxm/init.lua")
    local b200 = dofile(host.root .. "/clusters/devices/b200_sxm/init.lua")
    near("linear_attention", h100, "forward", nil, 0.609, 0.868)
    near("linear_attention", h100, "backward", nil, 1.908, 1.976)
    near("linear_attention", b200, "backward", nil, 1.251, 2.109)
    near("linear_attention", b200, "forward", 128, 1.478, 3.235)
    near("linear_attention", b200, "backward", 128, 4.320, 9.668)
    near("gated_delta_rule", b200, "backward", nil, 3.147, 3.147)
    near("gated_delta_rule", b200, "backward", 128, 6.168, 6.168)
    assert.is_nil(operator.get("linear_attention").law({ decays = 128 }, { generation = "ampere" }, "forward"))
  end)

  it("take the measured time of Mamba's scan on RTX 4090", function()
    -- Forward and backward, 384 channels, milliseconds: Eppie/mamba_melee@a8c8e3a, notes/scan_variants.md.
    local op, device = operator.get "selective_scan", require("ett.profile.device").get "rtx_4090"
    for _, row in ipairs { { 32768, 16, 1.1 }, { 32768, 128, 12.2 }, { 65536, 128, 19.6 } } do
      local s = { tokens = row[1], channels = 384, state = row[2] }
      assert.near(row[3], 1e3 * ((op.law(s, device, "forward")) + op.law(s, device, "backward")), 0.3 * row[3])
    end
    assert.is_nil(op.law({ tokens = 1, channels = 1, state = 1 }, { generation = "cdna3" }, "forward"))
  end)

  it("grow linearly with the tokens; those of attention quadratically", function()
    for name, power in pairs { ssd_scan = 1, gated_delta_rule = 1, selective_scan = 1, linear_attention = 1,
      short_conv = 1, lightning_indexer = 2 } do
      local op = operator.get(name)
      local function flops(seq)
        return op.flops(op.shape { hidden = 2048, heads = 16, linear_key_heads = 16, linear_value_heads = 32, tp = 1,
          micro_batch = 1, seq = seq, index_heads = 4, index_head_dim = 32, index_top_k = 64 }, "forward")
      end
      assert.equal(2.0 ^ power, flops(8192) / flops(4096), name)
    end
  end)
end)

describe("an architecture of operators with sizes of their own", function()
  it("has the parameters and the model FLOPs of its products for any number of tensor ranks", function()
    local hyper = { layers = 2, hidden = 512, heads = 8, ffn = 1024, vocab = 1024, tied_embeddings = false }
    local retnet = model_module.new(host.root .. "/spec/bench/architectures/retnet.lua", hyper)
    local function flops(tp)
      return estimate.new({ model = retnet, cluster = "dgx_h100", plan = { tp = tp, micro_batches = 1, seq = 1024 } })
        .model_flops_per_step
    end
    -- Queries, keys, values, gates and outputs (512 to 512, 512, 1024, 1024 and back), the MLP, norms, the two tables.
    local layer = 512 * (512 + 512 + 1024 + 1024 + 1024) + 3 * 512 * 1024 + 2 * 512 + 1024
    assert.equal(2 * layer + 512 + 2 * 1024 * 512, architecture.parameters(retnet))
    assert.near(flops(1), flops(4), 1e-9 * flops(1))
  end)
end)

describe("mixers", function()
  local jamba = "jamba-v0.1"
  it("replace attention in the layers that layer_types names", function()
    assert.equal("embedding x1; dense, Mamba x1; sparse, Mamba x1; dense, Mamba x1; sparse, Mamba x1; "
      .. "dense, full attention x1; sparse, Mamba x1; dense, Mamba x1; sparse, Mamba x1; head x1",
      layers_of(model_module.new(jamba, { layers = 8 })))
    assert.equal("embedding x1; sparse, gated delta net x3; sparse, full attention x1; head x1",
      layers_of(model_module.new("qwen3-next-80b-a3b", { layers = 4 })))
  end)

  it("are split over tensor ranks, with Mamba's sums between them", function()
    local model = model_module.new(jamba, { layers = 8 })
    local _, list = items_of(model, 2, { tp = 2, micro_batch = 1, seq = 256 })
    local wanted = "rms_norm, all_reduce backward, linear_mixer_in, mixer_conv, linear_ssm_x, all_reduce forward, "
      .. "all_reduce backward, rms_norm, rms_norm, rms_norm, linear_ssm_dt, selective_scan, linear_mixer_out, "
      .. "all_reduce forward, residual_add"
    assert.equal(wanted, table.concat(names_of(list), ", ", 1, 15))
    for name, layer in pairs { [jamba] = 2, ["qwen3-next-80b-a3b"] = 2, ["mamba2-2.7b"] = 2 } do
      local whole = items_of(model_module.new(name), layer, { tp = 1, micro_batch = 1, seq = 256 })
      local half = items_of(model_module.new(name), layer, { tp = 2, micro_batch = 1, seq = 256 })
      for _, part in ipairs { "linear_mixer_out", "selective_scan", "gated_delta_rule" } do
        if whole[part] then
          assert.equal(whole[part].operator.flops(whole[part].shape, "forward"),
            2 * half[part].operator.flops(half[part].shape, "forward"), part)
        end
      end
    end
  end)

  it("store what flash-linear-attention's functions save", function()
    local op, s = operator.get "gated_delta_rule", { batch = 2, seq = 128, heads = 4, key_heads = 2, key_dim = 16,
      value_dim = 32, chunk = 64 }
    local tokens = 2 * 128
    local queries, keys, values, inverses = 4 * 16, 4 * 16, 4 * 32, 4 * 64
    assert.equal(tokens * (2 * (queries + keys + values + inverses) + 4 * (4 + 4)), op.activation_bytes(s, "bf16"))
    s.decays = 16 -- Kimi delta attention: a decay for each channel of a key
    assert.equal(tokens * (2 * (queries + keys + values + 2 * inverses) + 4 * (4 + 4 * 16)),
      op.activation_bytes(s, "bf16"))
  end)

  it("store what the stack's functions store", function()
    -- Values of a token that one more layer stores, and backward over forward seconds of the convolution.
    local function layer(kind, stack, norms)
      local function run(layers)
        return estimate.new { model = model_module.new("hybrid", { layers = layers, hidden = 1024, vocab = 32000,
          heads = 1, head_dim = 1, layer_types = { kind }, ssm_groups = kind == "mamba2" and 2 or nil,
          ssm_norms = norms }),
          cluster = "dgx_h100", plan = { seq = 1024, micro_batches = 1, stack = stack } }
      end
      local two, three = run(2), run(3)
      for _, line in ipairs(three.operators) do
        if line.name == "mixer_conv" then
          return (three.stages[1].activation_bytes - two.stages[1].activation_bytes) / 2048,
            line.backward_seconds / line.forward_seconds
        end
      end
    end
    local h, inner, bc, heads, rank = 1024, 2048, 2 * 2 * 128, 2048 // 64, 64
    -- Input of the norm and of the first projection; then of the convolution; x, B, C, steps; the norm's two; the last.
    local function near(values, conv, kind, mamba, norms)
      for i = 1, mamba == "whole" and 2 or 1 do -- a plan without a stack has the whole functions of `plain`
        local stack = i == 1 and "plain:mamba=" .. mamba or nil
        local got, ratio = layer(kind, stack, norms)
        assert.equal(values, got, ("%s %s"):format(kind, stack))
        assert.near(conv, ratio, 1e-9)
      end
    end
    near(2 * h + (inner + bc) + (inner + bc + heads) + 2 * inner + inner, 1.5, "mamba2", "separate")
    near(2 * h + (inner + bc) + (inner + heads) + 2 * inner + inner, 2.5, "mamba2", "joint")
    near(2 * h + (2 * inner + bc + heads) + inner, 2.5, "mamba2", "whole") -- in_proj's output, the scan's output
    -- Convolution's input and output, compressed steps, z, steps, B, C, the output before and after the gate.
    near(2 * h + 2 * inner + rank + 2 * inner + 32 + 2 * inner, 1.5, "mamba", "separate")
    near(2 * h + 2 * inner + (rank + 32) + 32 + inner, 2.5, "mamba", "whole") -- xz; x_dbl; B and C again; output
    local normed = 2 * h + 2 * inner + rank + 2 * inner + 32 + 2 * inner + rank + 32
    near(normed, 1.5, "mamba", "whole", true)
  end)

  it("replace attention in every layer with `mixer`", function()
    local model = model_module.new("llama3-8b", { mixer = "mamba2" })
    local _, list = items_of(model, 2, { tp = 1, micro_batch = 1, seq = 64 })
    assert.equal("rms_norm, linear_mixer_in, mixer_conv, ssd_scan, gated_norm, linear_mixer_out, residual_add",
      table.concat(names_of(list), ", ", 1, 7))
  end)

  it("have the same collectives in a plain list of operators", function()
    local sizes = { layers = 2, hidden = 256, heads = 4, vocab = 1000, linear_key_heads = 4, linear_value_heads = 4,
      gated_mlp = true }
    for kind in pairs(require("ett.operator.mixer").kinds) do
      sizes.mixer = kind
      local model, names = model_module.new("llama", sizes), {}
      for _, entry in ipairs(model.layers[2].ops) do names[#names + 1] = entry.op end
      for _, parallel in ipairs { false, true } do
        local plan = { tp = 2, micro_batch = 1, seq = 256, sequence_parallel = parallel }
        local _, list = items_of(model_module.list(names, sizes), 2, plan)
        local _, wanted = items_of(model, 2, plan)
        assert.same(names_of(wanted), names_of(list), kind)
        for i, item in ipairs(wanted) do assert.equal(item.bytes, list[i].bytes, kind .. " " .. item.name) end
      end
    end
  end)

  it("of Kimi Linear project their gates from a narrow stream, with one decay per channel", function()
    local hyper = { layers = 4, hidden = 256, heads = 4, ffn = 512, vocab = 1024, linear_key_heads = 4,
      linear_value_heads = 4, linear_key_dim = 32, linear_value_dim = 32, linear_gate_rank = 32,
      layer_types = { "linear_attention" } }
    local model = model_module.new("llama", hyper)
    for tp = 1, 2 do
      local found, list = items_of(model, 2, { tp = tp, micro_batch = 1, seq = 128 })
      local names = names_of(list)
      assert.equal("linear_mixer_in, linear_gate_down, linear_gate_up, mixer_conv, gated_delta_rule, gated_norm, "
        .. "linear_mixer_out", table.concat(names, ", ", tp + 1, tp + 7))
      assert.equal((3 * 128 + 4) // tp, found.linear_mixer_in.shape.out_features)
      assert.equal(2 * 32, found.linear_gate_down.shape.out_features) -- on each rank
      assert.equal(2 * 32 * 128 // tp, found.linear_gate_up.operator.parameters(found.linear_gate_up.shape))
      assert.equal((4 + 128) // tp, found.gated_delta_rule.operator.parameters(found.gated_delta_rule.shape))
    end
    hyper.linear_key_dim = 16
    assert.matches("linear_gate_rank needs linear_key_dim = linear_value_dim, got 16 and 32", raised(function()
      items_of(model_module.new("llama", hyper), 2, { tp = 1, micro_batch = 1, seq = 128 })
    end), 1, true)
  end)

  it("of LFM2 are two gates around a convolution, split over tensor ranks", function()
    local model = model_module.new("llama3-8b", { mixer = "short_conv", conv_kernel = 3 })
    local found, list = items_of(model, 2, { tp = 2, micro_batch = 1, seq = 64 })
    assert.equal("rms_norm, all_reduce backward, linear_mixer_in, short_conv, linear_mixer_out, all_reduce forward, "
      .. "residual_add", table.concat(names_of(list), ", ", 1, 7))
    assert.equal(3 * 2048, found.linear_mixer_in.shape.out_features)
    local s, op = found.short_conv.shape, found.short_conv.operator
    -- per token and channel: two gates, three multiply-adds
    assert.equal(64 * 2048 * (2 + 3 * 2.0), op.flops(s, "forward"))
    assert.equal(64 * 2048 * 2 * 4.0, op.bytes(s, "bf16", "forward")) -- both gates, x and y
    assert.equal(2048 * 3, op.parameters(s))
  end)

  it("run beside attention in one tensor-parallel region", function()
    local model = model_module.new("llama3-8b", { parallel_mixer = "mamba2", ssm_output_norm = false })
    local _, list = items_of(model, 2, { tp = 2, micro_batch = 1, seq = 64 })
    assert.equal("rms_norm, all_reduce backward, linear_qkv, rope, flash_attention, linear_proj, linear_mixer_in, "
      .. "mixer_conv, ssd_scan, attention_gate, linear_mixer_out, residual_add, all_reduce forward, residual_add",
      table.concat(names_of(list), ", ", 1, 14))
    assert.matches("cp = 2: ett has no context parallelism for state-space", raised(estimate.new, { model = model,
      cluster = "dgx_h100", plan = { seq = 4096, micro_batches = 1, cp = 2 } }), 1, true)
  end)

  it("give a step on a cluster, its notes and its memory", function()
    for _, name in ipairs { "mamba-2.8b", "mamba2-2.7b", "nemotron-h-8b" } do
      local e = estimate.new { model = model_module.new(name), cluster = "dgx_h100",
        plan = { seq = 4096, micro_batches = 4, tp = 2, dp = 4, zero = 1, sequence_parallel = true } }
      assert.is_true(e.mfu_percent > 1 and e.mfu_percent < 100, name)
      local note = name == "mamba-2.8b" and "follows measured kernels on Ada" or "no scan was measured"
      assert.matches(note, e.notes[1], 1, true)
    end
  end)

  it("refuse context parallelism in layers of every kind that has a mixer, and in no others", function()
    local sizes = { layers = 2, hidden = 256, heads = 4, vocab = 1000, linear_key_heads = 4, linear_value_heads = 4,
      window = 64, attention_chunk = 64, experts = 4, top_k = 2 }
    for kind, own in pairs(require "ett.model.layer_kinds") do
      sizes.layer_types = { "full_attention", kind }
      local model = model_module.new("hybrid", sizes)
      local ok, why = pcall(estimate.new, { model = model, cluster = "dgx_h100",
        plan = { seq = 4096, micro_batches = 1, cp = 2 } })
      assert.equal(own.fields.mixer == nil, ok, kind)
      assert.is_true(ok or tostring(why):find("cp = 2: ett has no", 1, true) ~= nil, kind)
    end
  end)

  it("refuse context parallelism and impossible lists", function()
    assert.matches("plan: cp = 2: ett has no context parallelism for state-space and linear-attention layers; the "
      .. "nearest is 1; nearest passing plans on 2 devices: ",
      raised(estimate.new, { model = model_module.new "mamba2-2.7b", cluster = "dgx_h100",
        plan = { seq = 4096, micro_batches = 1, cp = 2 } }), 1, true)
    assert.matches("layer_types: unknown kind 'mamba3'; did you mean 'mamba'?; known are attention, ",
      raised(model_module.new, "llama3-8b", { layer_types = { "mamba3" } }), 1, true)
    assert.matches("layer_types: 'mlp' is a layer of one block; only the architecture 'hybrid' has it",
      raised(model_module.new, "llama3-8b", { layer_types = { "mlp" } }), 1, true)
    assert.matches("; mlp and moe only in hybrid", require("ett.model.hyper").fields.layer_types.help, 1, true)
    for _, name in ipairs { "bert-base", "t5-base" } do
      assert.matches("layer_types: the layers of this architecture are all alike",
        raised(model_module.new, name, { layer_types = { "mamba" } }), 1, true)
    end
    assert.matches("layer_types: 'sliding_attention' needs the field 'window'",
      raised(model_module.new, "llama3-8b", { layer_types = { "sliding_attention" } }), 1, true)
    assert.matches("the gated delta net needs the fields 'linear_key_heads', 'linear_value_heads'",
      raised(function()
        items_of(model_module.new("llama3-8b", { layer_types = { "linear_attention" } }), 2,
          { tp = 1, micro_batch = 1, seq = 64 })
      end), 1, true)
  end)
end)

describe("the architecture of LongCat-Flash", function()
  it("runs two dense blocks beside its experts; a token uses fewer real experts than it chooses", function()
    local model = model_module.new("longcat", { layers = 2, hidden = 256, heads = 4, ffn = 512, vocab = 1024,
      experts = 8, top_k = 6, zero_experts = 4, moe_ffn = 64 })
    local c = architecture.configuration(model.hyper, { tp = 1, ep = 4, micro_batch = 1, seq = 128 })
    local list = architecture.operations(model.layers[2], c)
    local roles, shapes = {}, {}
    for _, item in ipairs(list) do
      roles[#roles + 1] = item.role
      shapes[item.name] = shapes[item.name] or item.shape
    end
    assert.same({ 12, 6 }, { shapes.moe_router.experts, shapes.moe_router.top_k })
    assert.equal(4, shapes.moe_permute.top_k) -- 6 * 8 / 12
    assert.equal(128 * 4 // 2, shapes.expert_linear1.tokens)
    local text = table.concat(roles, " ")
    local _, dispatch = text:gsub("beside_dispatch", "")
    local _, combine = text:gsub("beside_combine", "")
    assert.same({ 4, 12 }, { dispatch, combine })
    assert.matches("needs the fields 'experts' and 'top_k'", raised(model_module.new, "longcat", { layers = 2,
      hidden = 256, heads = 4, vocab = 1024 }), 1, true)
  end)
end)

describe("attention to a part of the tokens", function()
  it("inside chunks counts the pairs of each chunk", function()
    local model = model_module.new("llama4-scout", { layers = 4, attention_chunk = 64 })
    local inside = items_of(model, 2, { tp = 2, micro_batch = 2, seq = 256 }).flash_attention
    local pairs_seen = 0
    for query = 1, 256 do
      for key = 1, query do if (query - 1) // 64 == (key - 1) // 64 then pairs_seen = pairs_seen + 1 end end
    end
    local flops = inside.operator.flops(inside.shape, "forward")
    -- The operator counts a diagonal of half a pair a query.
    assert.is_true(math.abs(flops / (2.0 * 2 * 20 * 2 * 128 * (pairs_seen - 256 / 2)) - 1) < 1e-12)
    assert.same({ 8, 64, 64 }, { inside.shape.batch, inside.shape.seq_q, inside.shape.seq_k })
    local all = items_of(model, 3, { tp = 2, micro_batch = 2, seq = 256 }).flash_attention
    assert.same({ 2, 256 }, { all.shape.batch, all.shape.seq_q })
  end)

  it("inside chunks that do not divide the tokens of a rank counts the same pairs", function()
    local model = model_module.new("llama4-scout", { layers = 4 })
    for _, plan in ipairs { { seq = 12288 }, { seq = 20000 }, { seq = 16384, cp = 4 }, { seq = 32768, cp = 8 } } do
      local expected, left = 0.0, plan.seq
      while left > 0 do
        expected = expected + math.min(left, 8192) ^ 2 / 2
        left = left - 8192
      end
      plan.micro_batch = 1
      local inside = items_of(model, 2, plan).flash_attention
      local flops = inside.operator.flops(inside.shape, "forward") * (plan.cp or 1)
      assert.near(1, flops / (2.0 * 40 * 2 * 128 * expected), 1e-3, ("%d over %d"):format(plan.seq, plan.cp or 1))
    end
  end)

  it("with an indexer counts at most index_top_k keys per query", function()
    local model = model_module.new("deepseek-v3.2", { layers = 4 })
    local found = items_of(model, 2, { tp = 4, micro_batch = 1, seq = 8192 })
    local flops, pairs_seen = found.flash_attention.operator.flops(found.flash_attention.shape, "forward"), 0.0
    for query = 1, 8192 do pairs_seen = pairs_seen + math.min(query, 2048) end
    assert.is_true(math.abs(flops / (2.0 * 32 * (192 + 128) * pairs_seen) - 1) < 1e-3)
    assert.equal(64 * 128, found.linear_index_q.shape.out_features)
    assert.equal(2048, found.lightning_indexer.shape.seq_q)
  end)

  it("of Qwen3-Next precedes gated shared experts", function()
    local found, list = items_of(model_module.new "qwen3-next-80b-a3b", 2, { tp = 2, micro_batch = 1, seq = 64,
      sequence_parallel = true })
    assert.matches("linear_down, shared_gate, residual_add", table.concat(names_of(list), ", "), 1, true)
    local s, op = found.shared_gate.shape, found.shared_gate.operator
    assert.same({ tokens = 32, hidden = 2048 }, s)
    assert.equal(2 * 32 * 2048, op.activation_bytes(s, "bf16")) -- the output of the experts
    assert.equal(2 * 32 * 2048 * 3, op.bytes(s, "bf16", "forward"))
    assert.equal(2048, op.parameters(s))
  end)

  it("has a learned sink for each head", function()
    local found = items_of(model_module.new "gpt-oss-20b", 2, { tp = 4, micro_batch = 1, seq = 4096 })
    assert.same({ 1, 1 }, { found.swiglu.shape.clamped, found.rope.shape.scaled })
    assert.equal(16, found.attention_sinks.operator.parameters(found.attention_sinks.shape))
  end)
end)

describe("multi-token prediction", function()
  it("adds two norms, a linear of twice the width, a layer and a norm, and shares embedding and head", function()
    local function count(n) return architecture.parameters(model_module.new("deepseek-v3", { mtp_layers = n })) end
    local function layer(n) return architecture.parameters(model_module.new("deepseek-v3", { layers = n })) end
    local h = 7168
    assert.equal(layer(61) - layer(60) + 3 * h + 2 * h * h, count(1) - count(0))
    assert.equal(count(1) - count(0), count(2) - count(1))
  end)

  it("gives GLM-4.5 the size of its stored weights, which contain embedding and head twice", function()
    for name, stored in pairs { ["glm-4.5"] = 358337791296, ["glm-4.5-air"] = 110468824832 } do
      local model = model_module.new(name, { mtp_layers = 1 })
      local twice = 2 * model.hyper.vocab * model.hyper.hidden
      -- Routers have a bias of each expert, which is no weight of a gradient.
      local biases = (model.hyper.layers + 1 - model.hyper.first_dense_layers) * model.hyper.experts
      assert.equal(stored, architecture.parameters(model) + twice + biases)
    end
  end)

  it("is on the last stage and costs time", function()
    local function step(n)
      return estimate.new { model = model_module.new("qwen3-30b-a3b", { mtp_layers = n, layers = 8 }),
        cluster = "dgx_h100", plan = { seq = 4096, pp = 2, ep = 4, dp = 4, micro_batches = 4 } }
    end
    local without, with = step(nil), step(1)
    assert.equal(without.stages[1].forward_seconds, with.stages[1].forward_seconds)
    assert.is_true(with.stages[2].forward_seconds > without.stages[2].forward_seconds)
    -- The layer, and a copy of the embedding beside the head.
    local h, vocab = with.model.hyper.hidden, 151936
    local layer = (without.stages[1].parameters - vocab * h) / 4
    local own = with.stages[2].parameters - without.stages[2].parameters
    assert.equal(layer + 3 * h + 2 * h * h + vocab * h, own)
  end)
end)

describe("an encoder", function()
  it("attends both ways", function()
    local found = items_of(model_module.new "bert-base", 2, { tp = 1, micro_batch = 1, seq = 512 }).flash_attention
    assert.equal(2.0 * 12 * 128 * 512 * 512, found.operator.flops(found.shape, "forward"))
  end)

  it("of images classifies one token of each and reads its patches", function()
    local model = model_module.new "vit-b-16"
    local head = items_of(model, #model.layers, { tp = 2, micro_batch = 8, seq = 197 }).lm_head
    assert.equal(8, head.shape.tokens)
    local patches = items_of(model, 1, { tp = 2, micro_batch = 8, seq = 197 }).patch_embedding
    assert.same({ 8 * 197, 3 * 16 * 16, 768 },
      { patches.shape.tokens, patches.shape.in_features, patches.shape.out_features })
  end)

  it("and a decoder have separate sequences, joined by cross-attention", function()
    local model = model_module.new("t5-3b", { encoder_seq = 512 })
    assert.equal("embedding x1; first encoder x1; encoder x23; first decoder x1; decoder x23; head x1",
      layers_of(model))
    local plan = { tp = 2, micro_batch = 4, seq = 128 }
    local encoder = items_of(model, 3, plan)
    assert.same({ 4 * 512, 512, 512, 0 }, { encoder.linear_qkv.shape.tokens, encoder.flash_attention.shape.seq_q,
      encoder.flash_attention.shape.seq_k, encoder.flash_attention.shape.causal })
    local decoder = { }
    for _, item in ipairs(select(2, items_of(model, 5, plan))) do
      if item.name == "flash_attention" then
        decoder[#decoder + 1] = ("%d %d %d"):format(item.shape.seq_q, item.shape.seq_k, item.shape.causal)
      elseif item.name == "linear_cross_kv" then
        assert.equal(4 * 512, item.shape.tokens)
      end
    end
    assert.same({ "128 128 1", "128 512 0" }, decoder)
    local e = estimate.new { model = model, cluster = "dgx_h100",
      plan = { seq = 128, pp = 2, tp = 2, dp = 2, micro_batch = 4, micro_batches = 8 } }
    assert.is_true(e.mfu_percent > 1 and e.mfu_percent < 100)
  end)

  it("and a decoder sum the gradients of both sequences over tensor ranks", function()
    local model = model_module.new("t5-3b", { encoder_seq = 512 })
    for _, shared in ipairs { false, true } do
      local summed = {}
      for _, item in ipairs(select(2, items_of(model, 5,
        { tp = 2, micro_batch = 4, seq = 128, sequence_parallel = shared }))) do
        if item.pass == "backward" and item.name == (shared and "reduce_scatter" or "all_reduce") then
          summed[#summed + 1] = item.bytes / (2 * 4 * model.hyper.hidden)
        end
      end
      assert.same({ 128, 128, 512, 128 }, summed) -- self-attention, queries, keys and values of the encoder, MLP
    end
  end)

  it("and a decoder exchange and store the keys of both sequences", function()
    local model = model_module.new("t5-3b", { encoder_seq = 512 })
    for _, method in ipairs { "all_gather", "ring", "ulysses" } do
      local sent, stored = {}, {}
      local plan = { tp = 2, cp = 2, cp_method = method, micro_batch = 4, seq = 128 }
      for _, item in ipairs(select(2, items_of(model, 5, plan))) do
        if item.group == "cp" and item.pass == "forward" then sent[#sent + 1] = item.bytes end
        if item.name == "flash_attention" then
          stored[#stored + 1] = item.operator.recomputed_bytes(item.shape, "bf16")
        end
      end
      -- By hand: 16 heads of 128 on a tensor rank, queries and outputs of 128 tokens; keys and values of 128 and 512.
      local row = 2 * 4 * 16 * 128
      local own, other = row * (128 + 2 * 128) / 2, row * (128 + 2 * 512) / 2
      assert.same({ own, other }, stored)
      local out = row * 128 / 2
      assert.same(({ all_gather = { row * 2 * 128.0, row * 2 * 512.0 }, ring = { row * 128.0, row * 512.0 },
        ulysses = { own, out, other, out } })[method], sent)
    end
  end)

  it("pass the encoder's output on from stage to stage", function()
    local model = model_module.new("t5-3b", { encoder_seq = 512 })
    local function sent(split) -- tokens that leave each stage, from the stages' seconds at 1 ns a byte
      local profile = {
        operator = function() return exactly(0) end,
        collective = function(_, kind, bytes) return exactly(kind == "send_recv" and bytes * 1e-9 or 0) end,
      }
      local e = estimate.new { model = model, cluster = "perlmutter", profile = profile,
        plan = { seq = 128, pp = 4, micro_batch = 2, micro_batches = 5, split = split } }
      local tokens, before = {}, 0
      for s = 1, 3 do -- forward to the next stage, backward to the one before
        tokens[s] = e.stages[s].send_seconds * 1e9 / (5 * 2 * model.hyper.hidden * 2) - before
        before = tokens[s]
        tokens[s] = math.floor(tokens[s] + 0.5)
      end
      return tokens
    end
    assert.same({ 512, 512, 640 }, sent())
    assert.same({ 640, 640, 640 }, sent { 30, 0, 9, 9 })
    assert.same({ 512, 512, 512 }, sent { 0, 0, 24, 24 })
    assert.same({ 512, 640, 640 }, sent { 24, 1, 0, 23 })
  end)
end)

describe("the function 'law' of an operator's file", function()
  local open = require("ett.profile.of_cluster").open

  it("gives the time on devices for which it returns one", function()
    local op = operator.get "gated_delta_rule"
    local shape = { batch = 1, seq = 8192, heads = 32, key_heads = 16, key_dim = 128, value_dim = 128, chunk = 64 }
    local cluster = require("ett.profile.cluster").get "dgx_h100"
    local answer = open(cluster):operator(op.name, shape, "bf16", "forward")
    assert.equal("function 'law' of the operator's file", answer.detail)
    assert.equal((op.law(shape, cluster.device, "forward")), answer.seconds)
    -- 26 us, 128 chunks of 1.44 us, and 0.18 TFLOP at 0.563 TFLOP/s on each of 132 multiprocessors.
    local flops = 2.0 * 8192 * 32 * (64 * (3 * 128 + 2 * 128) + 64 ^ 2 / 3 + 3 * 128 * 128)
    local wanted = 26e-6 + 128 * 1.44e-6 + flops / (132 * 0.563e12)
    assert.is_true(math.abs(answer.seconds / wanted - 1) < 1e-12)
    assert.is_true(answer.low_seconds < answer.seconds and answer.seconds < answer.high_seconds)
    assert.is_nil(op.law(shape, require("ett.profile.device").get "a100_sxm", "forward"))
    local other = open(require("ett.profile.cluster").get "dgx_a100")
    assert.is_true(other:operator(op.name, shape, "bf16", "forward").seconds > 0)
  end)

  it("is replaced by an assumed time, from half to twice, if no kernel was measured", function()
    local c = { hidden = 2048, heads = 16, linear_key_heads = 16, linear_value_heads = 32, tp = 1, micro_batch = 1,
      seq = 1024 }
    local function answer(name, cluster, pass)
      local op = operator.get(name)
      return open(require("ett.profile.cluster").get(cluster)):operator(op.name, op.shape(c), "bf16", pass)
    end
    local function assumed(...)
      local a = answer(...)
      assert.equal("assumed", a.provenance)
      return a.high_seconds / a.seconds, a.low_seconds / a.seconds
    end
    assert.same({ 2, 0.5 }, { assumed("ssd_scan", "dgx_h100", "forward") })
    assert.same({ 2, 0.5 }, { assumed("ssd_scan", "dgx_a100", "backward") })
    assert.same({ 1.5, 0.5 }, { assumed("selective_scan", "dgx_a100", "backward") })
    assert.same({ 2, 0.5 }, { assumed("gated_delta_rule", "dgx_a100", "forward") })
    local high, low = assumed("gated_delta_rule", "dgx_h100", "backward")
    assert.near(1.5, high, 1e-12)
    assert.near(0.5, low, 1e-12)
    assert.equal("calibrated", answer("gated_delta_rule", "dgx_h100", "forward").provenance)
  end)
end)

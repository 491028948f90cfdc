--- Laws of estimates, on a cluster and a profile whose every time is known.
local estimate = require "ett.step.estimate"
local lower_times = require "ett.step.times"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local step_core = require "step_core"
local sweep = require "ett.search.sweep"
local timeline = require "ett.step.timeline"
local near = require "near"
local raised = require "raised"

local cluster = { name = "flat", path = "spec", gpus_per_node = 4,
  device = { name = "D", peak_flops = { bf16 = 1e14, fp32 = 5e13 }, memory_bytes = 80e9, memory_bandwidth = 1e12 } }

--- Times proportional to work; `spread` widens every interval.
local function profile(scale, spread)
  scale, spread = scale or 1, spread or 0
  local function answer(seconds)
    seconds = seconds * scale
    return { seconds = seconds, low_seconds = seconds * (1 - spread), high_seconds = seconds * (1 + spread),
      provenance = "measured" }
  end
  local operator = require "ett.operator"
  return {
    operator = function(_, name, shape, dtype, pass)
      local op = operator.get(name)
      return answer(op.flops(shape, pass) / 1e14 + op.bytes(shape, dtype, pass) / 1e12)
    end,
    collective = function(_, _, bytes, topology)
      return answer(1e-5 * topology.nodes + bytes / (topology.nodes > 1 and 1e10 or 1e11))
    end,
  }
end

local function llama(layers, more)
  local hyper = { layers = layers or 12, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 }
  for k, v in pairs(more or {}) do hyper[k] = v end
  return model_module.new("llama", hyper)
end

local function run(plan, more)
  local given = { model = llama(), cluster = cluster, profile = profile(),
    plan = { seq = 2048, micro_batch = 1, micro_batches = 8 } }
  for k, v in pairs(more or {}) do given[k] = v end
  for k, v in pairs(plan) do given.plan[k] = v end
  return estimate.new(given)
end

local function sum(stages, field)
  local total = 0
  for _, s in ipairs(stages) do total = total + s[field] end
  return total
end

describe("the source of a line", function()
  --- Forward passes are calibrated, backward ones extrapolated and `share` of a line's seconds.
  local function sources(share, model, name)
    local p = profile()
    function p.operator(_, _, _, _, pass)
      local seconds = pass == "backward" and share or 1 - share
      return { seconds = seconds, low_seconds = seconds, high_seconds = seconds, detail = "why " .. pass,
        provenance = pass == "backward" and "extrapolated" or "calibrated", outside = pass == "backward" and 2 or 0,
        scaled_from = pass == "backward" and "vista" or nil }
    end
    local e = run({}, { profile = p, model = model })
    for _, line in ipairs(e.operators) do
      if line.name == (name or "rms_norm") then return line, tostring(e) end
    end
  end
  it("is the least certain one with at least a twentieth of the line", function()
    assert.equal("calibrated", sources(0.04).provenance)
    assert.equal("extrapolated", sources(0.06).provenance)
  end)
  it("is that of the forward pass where a backward pass repeats it", function()
    local mamba = model_module.new("hybrid", { layers = 2, hidden = 512, vocab = 1024, heads = 1, head_dim = 1,
      layer_types = { "mamba2" } })
    for share, word in pairs { [0.06] = "calibrated", [0.12] = "extrapolated" } do -- of 1.94 and 1.88
      local line = sources(share, mamba, "mixer_conv")
      assert.equal(word, line.provenance)
      assert.near((2 - 2 * share) / share, line.provenance_seconds.calibrated / line.provenance_seconds.extrapolated,
        1e-9)
    end
  end)
  it("is printed as words", function() assert.equal("why forward", sources(0.5).detail) end)
  it("states facts of every pass, not only of the first", function()
    local line, text = sources(0.5)
    assert.equal(4, line.times_outside)
    assert.is_nil(sources(0.04).times_outside) -- a calibrated line
    assert.matches("\n  rms_norm +[%d.]+ +[%d.]+  extrapolated %(scaled from vista, 4.00 times outside%)\n", text)
  end)
end)

describe("estimate", function()
  it("conserves layers and their work for every number of stages", function()
    local one = run { pp = 1 }
    for pp = 1, 12 do
      local e = run { pp = pp }
      assert.equal(14, sum(e.stages, "layers")) -- 12 layers, embedding, head
      near(sum(one.stages, "parameters"), sum(e.stages, "parameters"), "parameters")
      near(sum(one.stages, "forward_seconds"), sum(e.stages, "forward_seconds"), "forward")
      near(sum(one.stages, "backward_seconds"), sum(e.stages, "backward_seconds"), "backward")
    end
  end)

  it("holds the parameters that the architecture counts", function()
    local e = run { pp = 3 }
    local padded = 32000 -- a multiple of 128
    near(2 * padded * 1024 + 12 * (4 * 1024 * 1024 + 3 * 1024 * 2816 + 2 * 1024) + 1024,
      sum(e.stages, "parameters"), "parameters")
    near(e.model.parameters, sum(e.stages, "parameters"), "model")
  end)

  it("on one device is the sum of its parts", function()
    local e = run {}
    local s = e.stages[1]
    near(s.forward_seconds + s.backward_seconds + s.optimizer_seconds, e.step_seconds, "step")
    assert.is_true(e.bubble_percent < 1e-9)
    assert.equal(0, #e.collectives)
  end)

  it("adds up to 100 percent", function()
    for _, plan in ipairs { {}, { pp = 4, tp = 2, dp = 2, zero = 1 },
      { pp = 2, vp = 2, schedule = "interleaved", dp = 2 },
      { pp = 3, recompute = "full", schedule = "gpipe" }, { dp = 8, zero = 3 },
      { tp = 4, sequence_parallel = true, cp = 2, pp = 2 } } do
      local e, total = run(plan), 0
      for _, line in ipairs(e.operators) do total = total + line.percent end
      for _, line in ipairs(e.collectives) do total = total + line.percent end
      near(100, total + e.idle_percent, "percent")
    end
  end)

  it("1f1b and gpipe of equal stages take the same time; 1f1b needs less memory", function()
    local gpipe = run { pp = 4, schedule = "gpipe" }
    local one = run { pp = 4, schedule = "1f1b" }
    assert.is_true(one.memory_bytes < gpipe.memory_bytes)
    assert.is_true(one.step_seconds <= gpipe.step_seconds * (1 + 1e-12))
  end)

  it("scales with its times", function()
    for _, plan in ipairs { { pp = 4, tp = 2, dp = 2, zero = 1 }, { pp = 2, vp = 2, schedule = "interleaved" } } do
      local a, b = run(plan), run(plan, { profile = profile(4) })
      near(4 * a.step_seconds, b.step_seconds, "step")
    end
  end)

  it("data parallelism adds its all-reduce, exposed, and nothing else", function()
    local one, two = run {}, run { dp = 2, bucket_bytes = 1e12 }
    local bytes = one.stages[1].parameters * 4
    near(one.step_seconds + 1e-5 + bytes / 1e11, two.step_seconds, "step")
    near(1e-5 + bytes / 1e11, two.gradient_exposed_seconds, "exposed")
  end)

  it("cuts gradients into buckets by bytes", function()
    local bytes = run({}).stages[1].parameters * 4
    local e = run { dp = 2, bucket_bytes = 1e8 }
    near(math.ceil(bytes / 1e8) * 1e-5 + bytes / 1e11, e.stages[1].gradient_seconds, "buckets")
  end)

  it("overlapped gradients: exposed and hidden add up, and cannot be slower", function()
    for _, pp in ipairs { 1, 2, 4 } do
      local plain = run { pp = pp, dp = 4, bucket_bytes = 2e7 }
      local hidden = run { pp = pp, dp = 4, bucket_bytes = 2e7, overlap_gradients = true }
      assert.is_true(hidden.step_seconds < plain.step_seconds)
      near(plain.gradient_exposed_seconds, hidden.gradient_exposed_seconds + hidden.gradient_overlapped_seconds, "sum")
      assert.is_true(hidden.gradient_exposed_seconds > 0) -- the last bucket comes with the last gradient
    end
  end)

  it("ZeRO-1 shards the optimizer's state and time", function()
    local plain, sharded = run { dp = 4 }, run { dp = 4, zero = 1 }
    near(plain.stages[1].optimizer_bytes / 4, sharded.stages[1].optimizer_bytes, "state")
    assert.is_true(sharded.stages[1].optimizer_seconds < plain.stages[1].optimizer_seconds / 3.9)
    assert.is_true(sharded.stages[1].gather_seconds > 0)
  end)

  it("memory falls with every ZeRO stage", function()
    local before = math.huge
    for zero = 0, 3 do
      local e = run { dp = 8, zero = zero }
      assert.is_true(e.memory_bytes < before)
      before = e.memory_bytes
    end
  end)

  it("recompute runs the repeated layers' forward again and keeps less", function()
    local none, selective, full = run {}, run { recompute = "selective" }, run { recompute = "full" }
    assert.is_true(none.step_seconds < selective.step_seconds and selective.step_seconds < full.step_seconds)
    assert.is_true(none.memory_bytes > selective.memory_bytes and selective.memory_bytes > full.memory_bytes)
    local head = run({}, { model = llama(1) }).stages[1].forward_seconds
    local layer = run({}, { model = llama(2) }).stages[1].forward_seconds - head
    near(12 * layer, full.stages[1].recompute_seconds, "again")
    for _, line in ipairs(selective.operators) do
      assert.equal(line.name == "flash_attention", line.recompute_seconds ~= nil and line.recompute_seconds > 0)
    end
  end)

  it("times gradient accumulation by the bytes that it moves", function()
    local with, without = run {}, run { fused_accumulation = true }
    local parameters, m = with.stages[1].parameters, 8
    local bytes = parameters * (2 + 2 * 4) -- the new one in bf16, the kept one in fp32 twice
    local seconds = m * bytes * (1 / 1e12 + 1 / 6 / 1e14) -- a residual addition: one FLOP per 6 bytes
    assert.is_true(math.abs(with.step_seconds - without.step_seconds - seconds) < 1e-4 * seconds)
    -- ZeRO-2 and 3 copy gradients to the message; stacks that reduce them once add them up.
    for _, case in ipairs { { 2 + 4, {} }, { 2 + 2, { reduce_dtype = "bf16" } }, { 2 + 4, { micro_batches = 1 } },
      { 2 + 4, { zero = 2 } }, { 2 + 2, { zero = 2, reduce_dtype = "bf16" } }, { 2 + 2 * 4, { zero = 1 } },
      { 2 + 2 * 4, { zero = 2, stack = "transformers_fsdp" } },
      { 2 + 2 * 4, { stack = "transformers_fsdp" } }, { 2 + 4, { stack = "transformers_fsdp", micro_batches = 1 } } } do
      local function passes(fused)
        local e = run(merged({ zero = 3, dp = 2, fused_accumulation = fused }, case[2]))
        for _, line in ipairs(e.operators) do
          if line.name == "gradient_accumulation" then return line.seconds end
        end
      end
      assert.is_nil(passes(true))
      local expected = (case[2].micro_batches or m) * parameters * case[1] * (1 / 1e12 + 1 / 6 / 1e14)
      assert.near(expected, passes(false), 1e-4 * expected)
    end
  end)

  it("times the bytes of gradients to which weight products add, less a share", function()
    local in_step = require "ett.profile.in_step"
    local function line_of(stack, more)
      local plan = { seq = 2048, micro_batches = 8, stack = stack }
      for k, v in pairs(more or {}) do plan[k] = v end
      local e = estimate.new { model = llama(4, { hidden = 4096, heads = 32, ffn = 11008 }), plan = plan,
        cluster = "dgx_h100" }
      for _, line in ipairs(e.operators) do
        if line.name == "gradient_accumulation" then return line.seconds, e end
      end
      return 0, e
    end
    local seconds, e = line_of "megatron"
    local share = in_step.accumulation_share / (in_step.stream_share * 3.35e12)
    local parameters = e.stages[1].parameters -- norms and the embedding are no products, but the head is
      - 4096 * (2 * 4 + 1) - 32000 * 4096
    assert.near(8 * parameters * (2 * 4 - 2) * share, seconds, 0.03 * seconds)
    assert.near(8 * parameters * (2 * 2 - 2) * share, line_of("megatron", { gradient_dtype = "bf16" }), 0.03 * seconds)
    assert.is_true(line_of("megatron", { fused_accumulation = false }) > 2.5 * seconds) -- 10 bytes, of all weights
    assert.equal(0, line_of("torchtitan", { fused_accumulation = true }))
  end)

  it("sequence parallelism splits operators outside tensor-parallel regions", function()
    local plain, split = run { tp = 4 }, run { tp = 4, sequence_parallel = true }
    assert.is_true(split.stages[1].activation_bytes < plain.stages[1].activation_bytes)
    local names = {}
    for _, line in ipairs(split.collectives) do names[line.name] = true end
    assert.is_true(names.all_gather and names.reduce_scatter)
  end)

  it("sends across each boundary, cheaper inside a node", function()
    -- tp 1, dp 1: stages 1-4 on one node, 5-8 on the next; only one boundary crosses
    local e = run { pp = 8 }
    local bytes = 2048 * 1024 * 2
    local inside, across = 1e-5 + bytes / 1e11, 2e-5 + bytes / 1e10
    near(8 * inside, e.stages[1].send_seconds, "first")       -- 8 micro-batches forward
    near(8 * (inside + across), e.stages[4].send_seconds, "fourth")
    near(8 * inside, e.stages[8].send_seconds, "last")        -- backward only
  end)

  it("gathers scattered sends: the input, its gradient, and with serial sends the stage's own output", function()
    local bytes = 2048 * 1024 * 2
    local gather, send = 1e-5 + bytes / 1e11, 2e-5 + bytes / 4 / 1e10
    for _, serial in ipairs { false, true } do
      local whole = run { tp = 4, pp = 3, serial_sends = serial }
      local parts = run { tp = 4, pp = 3, scatter_sends = true, serial_sends = serial }
      local behind = serial and 2 or 1
      local forward, backward = { 0, 1, 1 }, { behind, behind, 0 }
      for s = 1, 3 do
        local a, b = whole.stages[s], parts.stages[s]
        near(a.forward_seconds + 8 * forward[s] * gather, b.forward_seconds, "forward")
        near(a.backward_seconds + 8 * backward[s] * gather, b.backward_seconds, "backward")
      end
      near(8 * send * (serial and 2 or 1), parts.stages[1].send_seconds, "first")
      for _, line in ipairs(parts.collectives) do
        if line.name == "all_gather" then near(8 * gather * (2 + 2 * behind) / 3, line.seconds, "line") end
      end
    end
  end)

  it("gathers as much as the stage before sends", function()
    local program <close> = step_core.program { gather = 1, boundary_bytes = 1,
      operations = { { forward = { 1 }, backward = { 10 } }, { forward = { 100 }, backward = { 200 } } },
      kinds = { { place = "middle", count = 2, uses = { 0, 1 } },
        { place = "middle", count = 4, uses = { 0, 1 }, boundary = 2 } } }
    local plan = step_core.plan { pp = 6, seq = 1, clip_gradients = false }
    local forward, backward = {}, {}
    for s, stage in ipairs(step_core.evaluated(program, plan).stages) do
      forward[s], backward[s] = stage.forward_seconds - 100, stage.backward_seconds - 200
    end
    assert.same({ 0.0, 1.0, 1.0, 2.0, 2.0, 2.0 }, forward)
    assert.same({ 10.0, 10.0, 20.0, 20.0, 20.0, 0.0 }, backward)
  end)

  it("a tied embedding has two copies and an all-reduce with several stages, one copy with one stage", function()
    local tied = llama(12, { tied_embeddings = true })
    near(sum(run({}).stages, "parameters") - 32000 * 1024, sum(run({}, { model = tied }).stages, "parameters"), "one")
    local e = run({ pp = 2 }, { model = tied })
    near(sum(run({}).stages, "parameters"), sum(e.stages, "parameters"), "two")
    assert.is_true(e.stages[1].tied_embedding_seconds > 0)
  end)

  it("full and selective recomputation repeat layers of multi-token prediction, not their lookup and head", function()
    local function e(plan, more)
      return run(merged({ pp = 2 }, plan), merged({ model = llama(12, { mtp_layers = 2 }) }, more))
    end
    local function again(plan, name)
      for _, line in ipairs(e(plan).operators) do
        if line.name == name then return line.recompute_seconds / line.forward_seconds end
      end
    end
    local cases = { { { recompute = "full" }, 1, 1 }, { { recompute = "policy" }, 0, 6 / 14 },
      { { recompute = "selective" }, 0, 1 }, { { recompute = "full", recompute_layers = 6 }, 0, 12 / 14 },
      { { recompute = "full", recompute_layers = 6, recompute_method = "uniform" }, 1, 1 },
      { { recompute = "full", recompute_layer_ids = { 0, 13 } }, 1 / 2, 2 / 14 } }
    for _, case in ipairs(cases) do
      near(case[2], again(case[1], "linear_mtp"), "linear_mtp")
      near(case[3], again(case[1], "flash_attention"), "flash_attention")
      for _, name in ipairs { "shared_embedding", "mtp_head", "embedding" } do assert.equal(0, again(case[1], name)) end
    end
    local function held(ids)
      local s = e({ recompute = "full", recompute_layer_ids = ids }).stages[2]
      return s.activation_bytes + s.working_bytes
    end
    -- A repeated layer holds two streams in place of what its norms, products and attention store. The head works most.
    local own = 2 * (3 + 2 + 8) * 1024 + 2 * 3 * 2816 + 4 * 16
    near(2 * 2048 * (own - 2 * 2 * 1024), held { 0 } - held { 0, 12, 13 }, "stored bytes")
    local drawn = 0.0
    for _, unit in ipairs(timeline.of(e({ recompute = "full" }, { units = true })).stages[2].units) do
      for _, part in ipairs(unit.kind == "B" and unit.parts or {}) do
        drawn = drawn + (part.name == "linear_mtp" and part.pass == "forward" and part.seconds or 0.0)
      end
    end
    for _, line in ipairs(e({ recompute = "full" }).operators) do -- a line is the mean of two stages
      if line.name == "linear_mtp" then near(2 * line.recompute_seconds, drawn, "timeline") end
    end
  end)

  it("multi-token prediction has one copy of the embedding on the last stage, and its all-reduce", function()
    local rows = 32000 * 1024
    for _, tied in ipairs { true, false } do
      for _, further in ipairs { 1, 2, 3 } do
        local function e(plan, count)
          return run(plan, { model = llama(12, { tied_embeddings = tied, mtp_layers = count }) })
        end
        local one, two = e({}, further), e({ pp = 2 }, further)
        near(sum(one.stages, "parameters") + rows, sum(two.stages, "parameters"), "one copy")
        local plain = run({ pp = 2 }, { model = llama(12, { tied_embeddings = true }) })
        assert.is_true(plain.stages[1].tied_embedding_seconds > 0)
        for stage = 1, 2 do
          assert.equal(plain.stages[stage].tied_embedding_seconds, two.stages[stage].tied_embedding_seconds)
        end
        -- The first and the last slice of a V are on one stage, which needs no copy.
        local v = e({ pp = 2, vp = 2, schedule = "zb_v" }, further)
        near(sum(one.stages, "parameters"), sum(v.stages, "parameters"), "no copy")
        assert.equal(0, v.stages[1].tied_embedding_seconds)
      end
    end
    assert.equal(0, run({ pp = 2 }, {}).stages[1].tied_embedding_seconds)
  end)

  it("multi-token prediction before the head's stage has its own copy, and sends all its outputs", function()
    for _, tied in ipairs { true, false } do
      local model = llama(12, { tied_embeddings = tied, mtp_layers = 2 })
      local one = run({}, { model = model })
      local three = run({ pp = 3, split = { 6, 6, 0 }, mtp_slice = 2 }, { model = model })
      near(sum(one.stages, "parameters") + (tied and 2 or 1) * 32000 * 1024, sum(three.stages, "parameters"), "copies")
      local tables = {}
      for i, stage in ipairs(three.stages) do tables[i] = stage.tied_embedding_seconds > 0 end
      assert.same({ true, true, tied }, tables)
      -- The output of the last repeated layer, and one of each layer of multi-token prediction.
      local bytes = 2048 * 1024 * 2
      near(8 * (1e-5 + 3 * bytes / 1e11) + 8 * (1e-5 + bytes / 1e11), three.stages[2].send_seconds, "sends")
      near(8 * (1e-5 + 3 * bytes / 1e11), three.stages[3].send_seconds, "gradients")
    end
    local e = run({ pp = 3, split = { 6, 6, 0 }, mtp_slice = 2, dp = 2 },
      { model = llama(12, { tied_embeddings = true, mtp_layers = 2 }), units = true })
    local found = {}
    for _, message in ipairs(timeline.of(e).stages[2].messages) do
      if message.group == "tied embedding" then
        found = { message.degree, timeline.ranks(e.plan, message, 3) }
      end
    end
    assert.same({ 3, { 1, 3, 5 } }, found)
  end)

  it("a tied head has no copy on the stage of an embedding among the middle layers", function()
    local blocks = require "ett.model.blocks"
    local model = model_module.new(function(h)
      local embedding, decoder = merged(blocks.embedding(h), { place = "middle" }), blocks.dense_layers(h)[1]
      return { layers = { { name = "encoder", count = 4, ops = decoder.ops }, embedding, decoder, blocks.head(h) } }
    end, { layers = 4, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000, tied_embeddings = true, norm = "rms_norm",
      position = "rope" })
    local whole = sum(run({}, { model = model }).stages, "parameters")
    for layers, copies in pairs { [2] = 0, [4] = 0, [5] = 1, [8] = 1 } do
      local e = run({ pp = 2, split = { layers, 9 - layers } }, { model = model })
      near(whole + copies * 32000 * 1024, sum(e.stages, "parameters"), layers .. " layers on the first stage")
      assert.equal(copies == 1, e.stages[2].tied_embedding_seconds > 0)
    end
    -- The embedding is only frozen with its own layer.
    local frozen = { frozen_layers = 4, pp = 2, split = { 2, 7 } }
    local layer = (whole - 32000 * 1024 - 1024) / 8
    near(2 * layer, run(frozen, { model = model }).stages[2].frozen_parameters, "trained")
    frozen.frozen_layers = 5
    near(2 * layer + 32000 * 1024, run(frozen, { model = model }).stages[2].frozen_parameters, "frozen")
  end)

  it("weights that two entries of a layer share have no copy", function()
    local model = model_module.new("gemma3n", { layers = 4, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000,
      altup_streams = 4, tied_embeddings = false })
    near(sum(run({}, { model = model }).stages, "parameters"), sum(run({ pp = 2 }, { model = model }).stages,
      "parameters"), "side products")
  end)

  it("experts: their gradients travel over fewer ranks", function()
    local moe = model_module.new("mixtral", { layers = 4, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000,
      experts = 8, top_k = 2 })
    local e = run({ dp = 4, ep = 4 }, { model = moe })
    local dense, expert = e.stages[1].parameters - e.stages[1].expert_parameters, e.stages[1].expert_parameters
    near(4 * 2 * 3 * 1024 * 2816, expert, "two of eight experts a rank")
    -- an expert has no other holder: no gradient to reduce
    near(1e-5 + dense * 4 / 1e11, e.stages[1].gradient_seconds, "gradients")
    local names = {}
    for _, line in ipairs(e.collectives) do names[line.name] = true end
    assert.is_true(names.all_to_all)
  end)

  it("experts may span tensor ranks", function()
    local moe = model_module.new("mixtral", { layers = 4, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000,
      experts = 8, top_k = 2 })
    local e = run({ dp = 2, tp = 4, ep = 8, etp = 1 }, { model = moe })
    near(4 * 1 * 3 * 1024 * 2816, e.stages[1].expert_parameters, "one expert a rank, unsplit")
  end)

  it("first and last slices may hold embedding and head alone", function()
    local e = run({ pp = 14 })
    assert.equal(14, #e.stages)
    for _, s in ipairs(e.stages) do assert.equal(1, s.layers) end
  end)

  it("intervals: none without spread, wider with it, and always around the time", function()
    local stated = { pp = 2, dp = 2, schedule = "1f1b", gradient_dtype = "fp32", fused_accumulation = false,
      overlap_gradients = false, overlap_sends = false }
    local sharp = run(stated)
    near(sharp.step_seconds, sharp.low_seconds, "low")
    near(sharp.step_seconds, sharp.high_seconds, "high")
    local without = run(stated, { interval = false })
    assert.equal(sharp.step_seconds, without.step_seconds)
    assert.is_nil(without.low_seconds)
    local before = 0
    for _, spread in ipairs { 0.05, 0.1, 0.2 } do
      local e = run(stated, { profile = profile(1, spread) })
      assert.equal(sharp.step_seconds, e.step_seconds)
      local half = (e.high_seconds - e.low_seconds) / 2 / e.step_seconds
      assert.is_true(half > before and half < spread) -- errors of different operators cancel in part
      before = half
    end
  end)

  it("intervals cover the plans that follow one whose messages have no time", function()
    local p = profile()
    local measured = p.collective
    function p.collective(self, kind, bytes, topology, dtype)
      if kind == "all_reduce" and dtype == "bf16" then require("ett.base.error").raise("model", "no bf16") end
      return measured(self, kind, bytes, topology, dtype)
    end
    local stated = run({ pp = 2, dp = 2, gradient_dtype = "fp32" }, { profile = p })
    local open = run({ pp = 2, dp = 2 }, { profile = p })
    assert.matches("gradient_dtype fp32", table.concat(open.left_open, ", "))
    assert.is_true(stated.low_seconds < stated.step_seconds)
    assert.same({ stated.low_seconds, stated.high_seconds }, { open.low_seconds, open.high_seconds })
  end)

  it("a schedule from a file runs, and split backwards fill the bubble", function()
    local one, zb = run { pp = 4, schedule = "1f1b" }, run { pp = 4, schedule = "zb_h1" }
    near(sum(one.stages, "backward_seconds"), sum(zb.stages, "backward_seconds"), "same work")
    assert.is_true(zb.step_seconds < one.step_seconds)
  end)

  it("sweeps with and without copies of the embedding give the digits of single predictions", function()
    local model = llama(12, { mtp_layers = 1 })
    local s = sweep.new { model = model, cluster = cluster, profile = profile(), over = { pp = { 1, 2, 3 } },
      plan = { seq = 2048, micro_batches = 8 } }
    for _, row in ipairs(s.rows) do
      assert.equal(run({ pp = row.pp }, { model = model }).memory_bytes, row.memory_bytes)
    end
  end)

  it("sweeps give the digits of single predictions", function()
    local times = lower_times.new(cluster, profile(1, 0.1))
    local model, over = llama(), { pp = { 1, 2, 3, 4, 6 }, tp = { 1, 2, 4 }, dp = { 1, 2, 8 },
      micro_batch = { 1, 2, 4 }, schedule = { "gpipe", "1f1b" }, recompute = { "none", "full" }, zero = { 0, 1 } }
    local s = sweep.new { model = model, cluster = cluster, times = times, plan = { seq = 2048, global_batch = 64 },
      over = over }
    assert.equal(5 * 3 * 3 * 3 * 2 * 2 * 2, s.evaluated + s.refused)
    assert.is_true(s.evaluated > 500)
    for i = 1, #s.rows, 7 do
      local row, plan = s.rows[i], { seq = 2048 }
      for name in pairs(over) do plan[name] = row[name] end
      plan.micro_batches = row.micro_batches
      local e = estimate.new { model = model, cluster = cluster, profile = profile(1, 0.1), plan = plan }
      assert.equal(e.step_seconds, row.step_seconds)
      assert.equal(e.memory_bytes, row.memory_bytes)
      assert.equal(e.bubble_percent, row.bubble_percent)
      assert.equal(e.tokens_per_second, row.tokens_per_second)
    end
  end)

  it("sorts a sweep by its objective, what fits first", function()
    local s = sweep.new { model = llama(), cluster = cluster, profile = profile(),
      plan = { seq = 2048, global_batch = 16 }, over = { pp = { 1, 2, 4 }, dp = { 1, 2, 4 } },
      objective = "tokens_per_second_per_device" }
    for i = 2, #s.rows do
      assert.is_true(s.rows[i].tokens_per_second_per_device <= s.rows[i - 1].tokens_per_second_per_device)
    end
  end)

  it("reports a wrong field of a sweep", function()
    assert.equal("sweep: unknown field 'pq'; did you mean 'pp'?", raised(sweep.new, { model = llama(),
      cluster = cluster, profile = profile(), plan = { seq = 2048, micro_batches = 1 }, over = { pq = { 1 } } }))
  end)

  it("says where each number came from", function()
    local p = profile()
    local measured = p.operator
    p.operator = function(self, name, ...)
      if name == "rope" then return nil end
      return measured(self, name, ...)
    end
    local e = run({}, { profile = p })
    for _, line in ipairs(e.operators) do
      assert.equal(line.name == "rope" and "assumed" or "measured", line.provenance)
    end
    assert.equal("no samples of rope: assumed from the device's rates", e.warnings[1])
  end)

  it("says how many shapes the samples of a kernel have if they are too few for a fit", function()
    local folders = require "ett.base.folder"
    local folder = folders.temporary()
    finally(function() os.execute(("rm -r '%s'"):format(folder)) end)
    folders.write(folder .. "/Mine-1_linear_up_bf16.csv",
      "tokens,in_features,out_features,F_dur(us),B_dur(us)\n512,1024,4096,40,80\n64,64,64,9,9\n")
    folders.write(folder .. "/Mine-1_bmm_qk_bf16.csv", "batch,tokens,in_features,out_features,F_dur(us),B_dur(us)\n"
      .. "8,512,128,512,40,80\n")
    local hyper = { layers = 2, hidden = 1024, heads = 8, vocab = 64 }
    local e = estimate.new { plan = { seq = 512, micro_batches = 1 },
      model = model_module.list({ "linear_qkv", "linear_up", "gelu", "linear_attention" }, hyper),
      cluster = { name = "mine", summary = "mine", source = "spec", gpus_per_node = 1, profile = folder, links = {},
        device = { name = "Mine-1", source = "spec", memory_bytes = 40e9, memory_bandwidth = 1.5e12,
          peak_flops = { fp32 = 19.5e12, bf16 = 312e12 } } } }
    local times = {}
    for _, line in ipairs(e.operators) do times[line.name] = line.provenance end
    assert.equal("measured", times.linear_up)
    assert.equal("assumed", times.linear_qkv)
    assert.matches("linear_qkv, gelu.* assumed from the device's rates; gemm has samples of 2 shapes, and other shapes "
      .. "need a fit, from at least 8; bmm has samples of 1 shape, and", e.warnings[1])
  end)

  it("lacks no samples of the host's launches, which the stack states", function()
    local e = estimate.new { cluster = "dgx_h100", plan = { seq = 512, micro_batches = 2, stack = "megatron" },
      model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 8, vocab = 32000 }) }
    local waits = 0.0
    for _, line in ipairs(e.operators) do waits = waits + (line.name == "host" and line.seconds or 0.0) end
    assert.is_true(waits > 0.1 * e.step_seconds)
    assert.same({}, e.warnings)
    assert.equal(("the device waits %.0f %% of the step until the host launches kernels: CUDA graphs (fields "
      .. "graphs and graphed of a stack) or larger micro-batches shorten this time"):format(
      100 * waits / e.step_seconds), e.notes[1])
    local sharded = estimate.new { cluster = "dgx_h100", model = model_module.new("llama", { layers = 2, hidden = 1024,
      heads = 8, vocab = 32000 }), plan = { seq = 512, dp = 2, micro_batches = 2, zero = 3, stack = "transformers" } }
    assert.matches("until the host gathers weights and launches kernels: larger micro%-batches", sharded.notes[1])
    local large = estimate.new { cluster = "dgx_h100", plan = { seq = 8192, micro_batches = 2, stack = "megatron" },
      model = model_module.new("llama", { layers = 2, hidden = 8192, heads = 64, vocab = 32000 }) }
    assert.same({}, large.notes)
  end)

  it("warns of software that does not run on TPUs", function()
    for stack, warned in pairs { megatron = true, maxtext = false, plain = false } do
      for _, name in ipairs { "tpu_v5p", "dgx_h100" } do
        local e = estimate.new { cluster = name, plan = { seq = 512, micro_batches = 2, stack = stack },
          model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 8, vocab = 32000 }) }
        local found = table.concat(e.warnings, "\n"):find("the stack megatron does not run on TPUs", 1, true)
        assert.equal(warned and name == "tpu_v5p", found ~= nil)
      end
    end
  end)

  it("warns if tensor ranks share a head whose loss does not divide the vocabulary", function()
    for loss, least in pairs { linear = 2, recomputed = 3 } do
      for tp = 1, 2 do
        local e = estimate.new { cluster = "dgx_h100", plan = { seq = 512, micro_batches = 2, tp = tp,
          stack = "transformers:cross_entropy=" .. loss },
          model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 8, vocab = 32000 }) }
        local found = table.concat(e.warnings, "\n"):find("does not divide the vocabulary over tp = 2", 1, true)
        assert.equal(tp >= least, found ~= nil)
      end
    end
  end)

  it("costs the price of all devices for its duration", function()
    local priced = merged(cluster)
    priced.price_per_gpu_hour = 2.5
    local e = run({ pp = 2, dp = 2 }, { cluster = priced, tokens = 1e9 })
    near(4 * 2.5 * e.step_seconds / 3600, e.dollars_per_step, "step")
    assert.equal(math.ceil(1e9 / (2 * 8 * 2048)), e.run_steps)
    near(e.run_steps * e.step_seconds / 86400, e.run_days, "run")
    near(e.run_steps * e.dollars_per_step, e.run_dollars, "run's price")
    assert.is_nil(run({}).dollars_per_step)
  end)

  it("writes empty lists as lists", function()
    local e = run {}
    local text = require("ett.json").encode(e)
    for _, name in ipairs { "collectives", "notes", "warnings" } do
      assert.same({}, e[name])
      assert.truthy(text:find(('"%s":[]'):format(name), 1, true), name)
    end
  end)

  it("units of the step change no digit of it", function()
    local dense = model_module.new("llama", { layers = 8, hidden = 1024, heads = 16, vocab = 32000 })
    local plan = { dp = 8, gradient_all_reduce = true, micro_batch = 2, micro_batches = 8, overlap_tensor = true,
      pp = 2, recompute = "selective", schedule = "zb_h1", seq = 4096, sequence_parallel = true, stack = "torchtitan",
      tp = 4, zero = 1 }
    local function seconds(units)
      return estimate.new({ model = dense, cluster = "dgx_h100", plan = plan, units = units }).step_seconds
    end
    assert.equal(("%.17g"):format(seconds(false)), ("%.17g"):format(seconds(true)))
  end)

  it("the tokens of the run are those of the argument or of the plan, and refused if both differ", function()
    assert.equal(1e9, run({ tokens = 1e9 }).run_tokens)
    assert.equal(1e9, run({ tokens = 1e9 }, { tokens = 1e9 }).run_tokens)
    assert.matches("tokens = 1e+09 contradicts the plan's tokens = 2e+09",
      raised(run, { tokens = 2e9 }, { tokens = 1e9 }), 1, true)
  end)

  it("MFU counts the products of a forward and twice that of a backward pass", function()
    local e = run {}
    local layers, h, ffn, s, tokens = 12, 1024, 2816, 2048, 8 * 2048
    local weights = layers * (4 * h * h + 3 * h * ffn) + 32000 * h
    local attention = layers * 2 * h * s / 2 * 2 -- causal: half of two products of 2 s h a token
    near(3 * tokens * (2 * weights + attention), e.model_flops_per_step, "FLOPs")
    near(100 * e.model_flops_per_step / (e.step_seconds * 1e14), e.mfu_percent, "MFU")
    near(run({ pp = 4, tp = 2, dp = 2, cp = 2 }).model_flops_per_step, 2 * e.model_flops_per_step, "any layout")
  end)

  it("says in the memory line when the plan does not fit, and its chance in a note if that is uncertain", function()
    local small = merged(cluster)
    small.device = { name = "S", peak_flops = cluster.device.peak_flops, memory_bytes = 1e9, memory_bandwidth = 1e12 }
    local e = run({}, { cluster = small })
    assert.is_true(not e.fits and #e.notes == 0)
    assert.matches("memory +[%d%.]+ GB of 1.00 GB on the fullest device: the estimate exceeds the memory by [%d%.]+ "
      .. "GB", tostring(e))
    e = run {}
    assert.is_true(e.fits and #e.notes == 0)
    near(100, e.fit_percent, "far below the limit")
    local last = 101
    for _, share in ipairs { 1.3, 1.04, 0.98, 0.85 } do
      small.device.memory_bytes = share * e.memory_bytes
      local own = run({}, { cluster = small })
      assert.is_true(own.fit_percent < last and own.fit_percent > 5, share)
      assert.equal(share > 1, own.fits)
      assert.matches(("the plan fits with a chance of %.0f %%. 90 %% interval of the memory: %.1f to %.1f GB"):format(
        own.fit_percent, own.memory_low_bytes / 1e9, own.memory_high_bytes / 1e9), own.notes[1], 1, true)
      last = own.fit_percent
    end
    small.device.memory_bytes = 0.5 * e.memory_bytes
    near(0, run({}, { cluster = small }).fit_percent, "far above the limit")
  end)

  it("refuses times that are not finite or negative", function()
    for _, seconds in ipairs { -1, 0 / 0, math.huge } do
      local p = profile()
      p.operator = function() return { seconds = seconds } end
      assert.matches("the profile's time of .- must be finite and at least 0", raised(run, {}, { profile = p }))
    end
  end)

  it("runs half of the forward pass again under recompute = 'policy'", function()
    local none, half, full = run { recompute = "none" }, run { recompute = "policy" }, run { recompute = "full" }
    assert.near((none.step_seconds + full.step_seconds) / 2, half.step_seconds, 1e-12)
    assert.is_true(none.memory_bytes > half.memory_bytes and half.memory_bytes > full.memory_bytes)
  end)

  it("warns of recompute = 'policy' where a chunk has one layer, which programs recompute whole or not", function()
    local function warned(layers, plan)
      local given = { seq = 512, micro_batches = 4, pp = 2, recompute = "policy", stack = "plain" }
      for key, value in pairs(plan or {}) do given[key] = value end
      local model = model_module.new("llama", { layers = layers, hidden = 1024, heads = 8, vocab = 32000 })
      local e = estimate.new { model = model, cluster = "dgx_h100", profile = false, plan = given }
      for _, text in ipairs(e.warnings) do
        if text:find "^recompute = policy: chunks of one layer" then return true end
      end
      return false
    end
    assert.is_true(warned(2))
    assert.is_true(warned(3))
    assert.is_false(warned(4))
    assert.is_true(warned(4, { schedule = "interleaved", vp = 2 }))
    assert.is_false(warned(2, { recompute = "full" }))
    assert.is_false(warned(2, { stack = "torchtitan" }))
  end)

  it("warns of recompute_layers that repeats no layer", function()
    local model = model_module.new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 32000 })
    local function of(layers, method, plan)
      local given = { seq = 512, micro_batches = 4, pp = 2, recompute = "full", recompute_layers = layers,
        recompute_method = method, stack = "plain" }
      for key, value in pairs(plan or {}) do given[key] = value end
      local e, again = estimate.new { model = model, cluster = "dgx_h100", profile = false, plan = given }, 0.0
      for _, stage in ipairs(e.stages) do again = again + stage.recompute_seconds end
      for _, text in ipairs(e.warnings) do
        if text:find "^recompute_layers = %d+: no layer is repeated" then return true, again > 0 end
      end
      return false, again > 0
    end
    local none, some = { true, false }, { false, true }
    assert.same(none, { of(100, "every") })
    assert.same(none, { of(5, "every") }) -- slices have 4 layers
    assert.same(some, { of(4, "every") })
    assert.same(some, { of(5, "every", { split = { 3, 5 } }) })
    assert.same(none, { of(3, "every", { schedule = "interleaved", vp = 2 }) })
    assert.same(some, { of(100, "block") })
    assert.same(some, { of(100, "uniform") })
    assert.same(some, { of(nil, nil) })
  end)

  it("warns of a network that is faster than the links inside the nodes: it may be in bits", function()
    local model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 8, vocab = 32000 })
    local function warning(of, devices)
      local list = estimate.new { cluster = of, model = model, profile = false,
        plan = { seq = 512, micro_batches = 2, dp = devices, dtype = of == "dgx2" and "fp16" or "bf16" } }.warnings
      for _, text in ipairs(list) do if text:find "in bits" then return text end end
    end
    local function own(network)
      return { name = "own", summary = "x", source = "x", gpus_per_node = 4, device = "h100_sxm",
        links = { intra = { bandwidth = 5e10, source = "x" },
          inter = { bandwidth_per_gpu = network, bandwidth_per_node = 4e11, source = "x" } } }
    end
    assert.equal("cluster 'own': links.inter.bandwidth_per_gpu = 1e+11 is above links.intra.bandwidth = 5e+10; both "
      .. "are bytes/s, and the first may be in bits/s", warning(own(1e11), 8))
    assert.is_nil(warning(own(1e11), 4)) -- one node does not use the network
    assert.is_nil(warning(own(5e10), 8))
    for _, name in ipairs(require("ett.profile.cluster").names()) do
      local c = require("ett.profile.cluster").get(name)
      assert.is_nil(warning(name, 2 * c.gpus_per_node), name)
    end
  end)

  it("has the stack of its cluster, unless the plan states one", function()
    local with_stack = { name = "own", summary = "x", source = "x", gpus_per_node = 8, device = "h100_sxm",
      stack = "gpt_neox", links = { intra = { bandwidth = 4e11, source = "x" },
        inter = { bandwidth_per_gpu = 5e10, bandwidth_per_node = 4e11, source = "x" } } }
    local function of(stack, more)
      local given = { seq = 512, micro_batches = 2, tp = 2, stack = stack }
      for key, value in pairs(more or {}) do given[key] = value end
      return estimate.new { cluster = with_stack, plan = given,
        model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 8, vocab = 32000 }) }
    end
    local implied = of(nil)
    assert.equal("gpt_neox", implied.stack)
    assert.equal(of("gpt_neox").step_seconds, implied.step_seconds)
    assert.equal(of("gpt_neox").memory_bytes, implied.memory_bytes)
    assert.equal("plain", of("plain").stack)
    assert.error_matches(function() of(nil, { sequence_parallel = true, overlap_tensor = true }) end,
      "overlap_tensor is not supported by the stack 'gpt_neox'")
    with_stack.stack = "gpt_neo"
    assert.error_matches(function() of(nil) end, "unknown stack 'gpt_neo'; did you mean 'gpt_neox'?", 1, true)
    with_stack.stack = "megatron"
    local s = sweep.new { model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 8, vocab = 32000 }),
      cluster = with_stack, plan = { seq = 512, micro_batches = 2 }, over = { tp = { 1, 2 } } }
    for _, row in ipairs(s.rows) do assert.equal(of(nil, { tp = row.tp }).step_seconds, row.step_seconds) end
  end)

  it("is marked as assumed on a device without measured kernels", function()
    local scaled = "of h200_sxm, scaled by the devices' rates"
    local notes = { tpu_v5p = "no kernel of 'TPU v5p' was measured: operator times are those " .. scaled,
      tpu_v6e = "no table of kernels of 'TPU v6e': products and attention have published rates, and other operator "
        .. "times are those " .. scaled }
    for name, marked in pairs { tpu_v5p = true, tpu_v6e = true, dgx_h100 = false } do
      local e = estimate.new { cluster = name, plan = { seq = 1024, micro_batches = 2 },
        model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 8, vocab = 32000 }) }
      for _, line in ipairs(e.operators) do assert.equal(marked, line.provenance == "assumed", line.name) end
      assert.equal(notes[name], e.notes[1])
    end
  end)

  it("repeats under torchtitan's half what PyTorch's checkpointing by operator does not store", function()
    local function again(stack, plan)
      local given = { seq = 4096, micro_batches = 2, recompute = "policy", stack = stack }
      for key, value in pairs(plan or {}) do given[key] = value end
      local e = estimate.new { cluster = "dgx_h100", plan = given,
        model = model_module.new("llama", { layers = 4, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336,
          vocab = 32000 }) }
      local shares = {}
      for _, lines in ipairs { e.operators, e.collectives } do
        for _, line in ipairs(lines) do
          if (line.forward_seconds or 0) > 0 and (line.recompute_seconds or 0) > 0 then
            shares[line.name .. (line.group or "")] = line.recompute_seconds / line.forward_seconds
          end
        end
      end
      return shares
    end
    -- Products in order: q (stored), k, v (stored), output, gate (stored), up, down (stored).
    local shares = again("torchtitan")
    for name, share in pairs { linear_qkv = 1024 / 6144, linear_proj = 1, linear_up = 1 / 2, rope = 1, swiglu = 1,
      residual_add = 1 / 2, rms_norm = 8 / 9 } do -- the norm before the head is not repeated
      assert.near(share, shares[name], 1e-12, name)
    end
    assert.is_nil(shares.flash_attention)
    assert.is_nil(shares.linear_down)
    shares = again("torchtitan", { tp = 8, sequence_parallel = true })
    assert.near(8 / 9, shares.all_gathertp, 1e-12)
    assert.is_nil(shares.reduce_scattertp)
    shares = again "fsdp_eager"
    for _, name in ipairs { "linear_qkv", "flash_attention", "swiglu" } do
      assert.near(0.5, shares[name], 1e-12, name)
    end
    assert.is_nil(shares.linear_down)
    assert.near(1 / 4, shares.residual_add, 1e-12)
  end)

  it("says what a stack changes where operator times come from samples", function()
    for name, says in pairs { perlmutter = true, vista = true, dgx_a100 = false } do
      for _, stack in ipairs { "megatron:launch_seconds=0", false } do
        local e = estimate.new { cluster = name, plan = { seq = 1024, micro_batches = 2, stack = stack or nil },
          model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 8, vocab = 32000 }) }
        assert.same(stack and says and { ("operator times come from samples: the stack '%s' changes only memory, "
          .. "launches and overlaps"):format(stack) } or {}, e.notes, name)
      end
    end
  end)

  it("names the source of its price, or why there is none", function()
    local function source(cluster_name, price)
      return estimate.new { model = llama(), cluster = cluster_name, plan = { seq = 2048, micro_batches = 1,
        price_per_device_hour = price } }.price_source
    end
    assert.matches("^AWS", source "dgx_h100")
    assert.equal("given", source("dgx_h100", 2))
    assert.matches("^unset: no public", source "dgx_a800")
  end)

  it("answers the same after operators were forgotten", function()
    local before = run({ pp = 2 }).step_seconds
    require("ett.operator").forget()
    assert.equal(before, run({ pp = 2 }).step_seconds)
  end)

  it("lowers no program again for chunks that a plan leaves open, and seeks no plans near refused ones", function()
    local lower, rules = require "ett.step.lower", require "ett.plan.rules"
    local program, nearest, count = lower.program, rules.nearest, { program = 0, nearest = 0 }
    finally(function() lower.program, rules.nearest = program, nearest end)
    function lower.program(...)
      count.program = count.program + 1
      return program(...)
    end
    function rules.nearest(...)
      count.nearest = count.nearest + 1
      return nearest(...)
    end
    local function counted(plan)
      count.program = 0
      return run(plan), count.program
    end
    local given, programs = counted { pp = 4, schedule = "1f1b" }
    local open, of_open = counted { pp = 4 }
    assert.is_true(open.low_seconds < given.low_seconds)
    assert.equal(programs, of_open)
    assert.equal(programs, (select(2, counted { pp = 4, micro_batches = 2 }))) -- too few for chunks
    assert.equal(0, count.nearest)
  end)

  it("has an interval that covers other CUDA graphs of a mixture of experts", function()
    local model = model_module.new("qwen3-30b-a3b", { layers = 4 })
    local function of(stack)
      return estimate.new { model = model, cluster = "gb200_nvl72", plan = { seq = 4096, dp = 8, ep = 8,
        micro_batches = 2, dtype = "mxfp8", stack = stack } }
    end
    local graphed = of "megatron_hybridep:graphs"
    local function open(stack) return table.concat(of(stack).left_open, ", "):match "graphs [%w_+]+" end
    assert.is_nil(open "megatron_hybridep:graphs")
    assert.equal("graphs none", open "megatron_hybridep")
    assert.equal("graphs attn+moe_router+moe_preprocess", open "megatron_bridge")
    assert.is_true(of "megatron_hybridep:graphed=attn".low_seconds > graphed.step_seconds)
    assert.is_true(of "megatron_hybridep".low_seconds <= graphed.step_seconds)
    assert.is_true(of "megatron_bridge".high_seconds >= of "megatron_bridge:graphed=".step_seconds)
  end)

  it("lowers once for all plans with the same program", function()
    local base = { seq = 2048, micro_batch = 1, micro_batches = 4, tp = 2 }
    local function key(more)
      local p = merged(base, more)
      local whole = plan_module.new(p)
      return require("ett.plan.fields").program_keys(whole, {})(whole)
    end
    assert.equal(key { pp = 2 }, key { pp = 4, dp = 8, schedule = "gpipe", recompute = "full", zero = 1 })
    assert.are_not.equal(key { pp = 2 }, key { pp = 2, tp = 4 })
    assert.are_not.equal(key { pp = 2 }, key { pp = 2, micro_batch = 2 })
  end)
end)

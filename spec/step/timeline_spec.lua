-- The timeline of a step, its Chrome trace and its page, against the estimate that they draw.
local chrome_trace = require "ett.step.chrome_trace"
local estimate = require "ett.step.estimate"
local exactly = require "exactly"
local folder = require "ett.base.folder"
local json = require "ett.json"
local merged = require "ett.base.merged"
local model = require "ett.model"
local timeline = require "ett.step.timeline"

local dense = model.new("llama", { layers = 10, hidden = 2048, heads = 16, vocab = 32000 })
local wide = model.new("llama", { layers = 8, hidden = 8192, heads = 64, vocab = 32000 })
local moe = model.new("mixtral", { layers = 4, hidden = 1024, heads = 16, vocab = 32000, ffn = 2048,
  experts = 8, top_k = 2 })

local predicting = model.new("llama", { layers = 10, hidden = 1024, heads = 16, vocab = 32000, mtp_layers = 2,
  tied_embeddings = true })

local function make(m, plan)
  plan.seq = 2048
  local what = { model = m, plan = plan, cluster = "dgx_h100", units = true }
  return estimate.new(what), what
end

local plans = {
  { "1f1b", dense, { pp = 4, tp = 2, dp = 2, micro_batches = 6 } },
  { "interleaved", dense, { pp = 2, vp = 2, schedule = "interleaved", micro_batches = 4 } },
  { "gpipe, full recompute", dense, { pp = 2, tp = 2, schedule = "gpipe", micro_batches = 3, recompute = "full" } },
  { "the first 2 layers of a slice recomputed", dense,
    { pp = 4, tp = 2, micro_batches = 6, recompute = "full", recompute_layers = 2 } },
  { "each 2nd layer of a slice recomputed", dense, { pp = 2, vp = 2, schedule = "interleaved", micro_batches = 4,
    split = { 1, 3, 4, 2 }, recompute = "full", recompute_layers = 2, recompute_method = "every" } },
  { "listed layers recomputed", dense, { pp = 2, vp = 2, schedule = "interleaved", micro_batches = 4,
    split = { 1, 3, 4, 2 }, recompute = "full", recompute_layer_ids = { 0, 2, 3, 9 } } },
  { "the first layer of a way recomputed", dense, { pp = 2, dp = 2, micro_batches = 8, schedule = "chimera",
    split = { 4, 6 }, recompute = "full", recompute_layers = 1 } },
  { "groups of layers recomputed, whose last layer stops early", dense, { pp = 2, tp = 2, micro_batches = 3,
    recompute = "full", recompute_layers = 3, recompute_method = "uniform", stack = "torchtitan" } },
  { "selective recompute", dense, { pp = 2, micro_batches = 3, recompute = "selective" } },
  { "sequence parallel, overlapped", dense,
    { tp = 4, pp = 2, micro_batches = 2, sequence_parallel = true, overlap_tensor = true } },
  { "split backward", dense, { pp = 4, micro_batches = 8, schedule = "zb_h1" } },
  { "split backward, overlapped", dense, { tp = 4, pp = 2, micro_batches = 4, schedule = "zb_h1",
    sequence_parallel = true, overlap_tensor = true } },
  { "V-shaped", dense, { pp = 2, vp = 2, micro_batches = 8, schedule = "zb_v" } },
  { "two-way", dense, { pp = 4, dp = 2, micro_batches = 8, schedule = "chimera" } },
  { "experts", moe, { pp = 2, dp = 8, ep = 8, micro_batches = 3 } },
  { "multi-token prediction before the head, recomputed", predicting, { pp = 3, tp = 2, micro_batches = 4,
    split = { 5, 5, 0 }, mtp_slice = 2, recompute = "full" } },
  { "multi-token prediction, recomputed in part", predicting, { pp = 2, vp = 2, schedule = "interleaved",
    micro_batches = 4, recompute = "full", recompute_layer_ids = { 0, 9, 11 } } },
  { "multi-token prediction, selective recompute", predicting, { pp = 2, micro_batches = 4, schedule = "zb_h1",
    recompute = "selective" } },
}

describe("the timeline of a step", function()
  it("holds the model FLOPs of the estimate: once for each pass, none for repeated ones", function()
    for _, plan in ipairs { { recompute = "full" }, { recompute = "selective" }, { schedule = "zb_h1" },
      { frozen_layers = 4 }, { lora_rank = 8 }, { pp = 4, schedule = "dualpipe" } } do
      plan.pp, plan.dp, plan.tp, plan.micro_batches = plan.pp or 2, 2, 2, 8
      local e, flops = make(dense, plan), 0.0
      for _, stage in ipairs(timeline.of(e).stages) do
        for _, unit in ipairs(stage.units) do
          for _, part in ipairs(unit.parts) do flops = flops + (part.flops or 0) end
        end
      end
      assert.near(1, flops * plan.tp * plan.dp / e.model_flops_per_step, 1e-9, plan.recompute or plan.schedule)
    end
  end)

  for _, case in ipairs(plans) do
    it("holds the time of every operator: " .. case[1], function()
      local e = make(case[2], case[3])
      local sums, pairs_seen = {}, 0
      for _, stage in ipairs(timeline.of(e).stages) do
        for _, unit in ipairs(stage.units) do
          local at, total = unit.parts[1].start, 0.0
          for _, part in ipairs(unit.parts) do
            assert.near(at, part.start, 1e-12)
            at, total = part.start + part.seconds, total + part.seconds
            local id = part.name .. " " .. (part.group or "")
            sums[id] = (sums[id] or 0.0) + part.seconds / e.plan.pp
          end
          if not unit.paired then assert.near(unit.seconds, total, 1e-12) end
          pairs_seen = pairs_seen + (unit.paired and 1 or 0)
        end
      end
      local seen = 0
      for _, lines in ipairs { e.operators, e.collectives } do
        for _, line in ipairs(lines) do
          local sum = sums[line.name .. " " .. (line.group or "")]
          if sum then
            seen = seen + 1
            assert.near(line.seconds, sum, 1e-9 + 1e-6 * line.seconds, line.name)
          end
        end
      end
      assert.is_true(seen >= 8)
    end)
  end

  it("repeats the layers of a group before their backward passes", function()
    local function order(layers)
      local e = make(dense, { pp = 2, micro_batches = 2, recompute = "full", recompute_layers = layers,
        recompute_method = "uniform" })
      local list = {}
      for _, unit in ipairs(timeline.of(e).stages[1].units) do
        for _, part in ipairs(unit.kind == "B" and unit.micro_batch == 1 and unit.parts or {}) do
          if part.name == "linear_up" then list[#list + 1] = part.pass == "forward" and "F" or "B" end
        end
      end
      return table.concat(list)
    end
    assert.equal("FBFBFBFBFB", order(1))
    assert.equal("FFBBFFFBBB", order(3))
    assert.equal("FFFFFBBBBB", order(8))
  end)

  local shared = model.new("mixtral", { layers = 4, hidden = 2048, heads = 16, vocab = 32000, ffn = 2048, experts = 8,
    top_k = 2, shared_experts = 2 })
  for _, case in ipairs {
    { "gathers of weights", { dp = 16, zero = 3, micro_batches = 2 } },
    { "overlapped gathers of weights", { dp = 16, zero = 3, micro_batches = 2, overlap_parameters = true } },
    { "gathers of messages", { pp = 2, tp = 2, dp = 8, scatter_sends = true, micro_batches = 4 } },
    { "transfers to the host", { dp = 8, offload_activations = 1, micro_batches = 2 } },
    { "launches of some layers", { pp = 2, tp = 2, dp = 8, recompute = "full", recompute_layers = 1,
      stack = "megatron_moe", micro_batches = 4 } },
    { "repeated launches", { pp = 2, tp = 2, dp = 8, recompute = "full", stack = "megatron_moe", micro_batches = 4 } },
  } do
    it("hides the all-to-alls that the estimate hides behind shared experts: " .. case[1], function()
      local plan = merged(case[2], { ep = 8, overlap_all_to_all = "shared_experts" })
      local e = make(shared, plan)
      for s, stage in ipairs(timeline.of(e).stages) do
        local hidden, sums, waited = 0.0, 0.0, false
        for _, run in ipairs(stage.runs) do
          local sum = 0.0
          for _, part in ipairs(run.parts) do
            sum = sum + part.seconds
            waited = waited or part.resource == "wait" or part.name == "host" or part.name == "all_gather"
            if part.role == "exchange" then hidden = hidden + part.hidden end
          end
          sums = math.max(sums, math.abs(sum - run.units[1].seconds))
        end
        assert.is_true(waited)
        assert.near(0, sums, 1e-12)
        assert.near(e.stages[s].all_to_all_overlapped_seconds, hidden, 1e-9)
        assert.is_true(hidden > 1e-4)
      end
    end)
  end

  it("contains gradients and updates after the pipeline, and ends with the step", function()
    local e = make(dense, { pp = 2, dp = 4, micro_batches = 2, zero = 1 })
    for s, stage in ipairs(timeline.of(e).stages) do
      local sums, last = { gradients = 0.0, update = 0.0, weights = 0.0, sends = 0.0 }, 0.0
      for _, m in ipairs(stage.messages) do
        sums[m.lane], last = sums[m.lane] + m.seconds, math.max(last, m.start + m.seconds)
      end
      assert.near(e.stages[s].gradient_seconds, sums.gradients, 1e-12)
      assert.near(e.stages[s].optimizer_seconds, sums.update, 1e-12)
      assert.near(e.stages[s].send_seconds, sums.sends, 1e-12)
      assert.near(e.stages[s].end_seconds, last, 1e-12)
    end
  end)
end)

describe("messages of gradients and weights", function()
  local spread = { dp = 8, tp = 2, micro_batches = 4 }
  local function with(more) return merged(spread, more) end
  -- By hand: a rank of tp = 2 holds half of the weights; ZeRO-2 scatters the gradients of each micro-batch, ZeRO-3
  -- gathers the weights for each pass (Rajbhandari et al. 2020). Norms are on each rank.
  local half = (require("ett.model.architecture").parameters(dense) + 21 * 2048) / 2
  for zero, times in pairs { [0] = { 1, 0 }, { 1, 1 }, { 4, 1 }, { 4, 8 } } do
    for _, overlaps in ipairs { false, true } do
      it(("have the bytes of ZeRO-%d%s"):format(zero, overlaps and ", overlapped" or ""), function()
        local e = make(dense, with { zero = zero, overlap_gradients = overlaps,
          overlap_parameters = overlaps and zero > 0 or nil })
        local bytes, latest = { gradients = 0.0, weights = 0.0 }, 0.0
        local t = timeline.of(e)
        for _, m in ipairs(t.stages[1].messages) do
          if bytes[m.lane] then bytes[m.lane] = bytes[m.lane] + m.bytes end
          latest = math.max(latest, m.start + m.seconds)
        end
        assert.near(times[1] * half * 4, bytes.gradients, 1e-6 * half)
        assert.near(times[2] * half * 2, bytes.weights, 1e-6 * half)
        assert.near(t.seconds, latest, 1e-9)
      end)
    end
  end

  it("have one copy of the embedding's table a stage", function()
    for _, plan in ipairs { { pp = 2 }, { pp = 3, split = { 5, 5, 0 }, mtp_slice = 2 }, { pp = 2, schedule = "zb_v",
      vp = 2 }, { pp = 2, schedule = "chimera" } } do
      local e = make(predicting, merged({ dp = 2, micro_batches = 8 }, plan))
      for i, stage in ipairs(timeline.of(e).stages) do
        for _, m in ipairs(stage.messages) do
          if m.group == "dp" then assert.near(4 * e.stages[i].parameters, m.bytes, 1e-6 * m.bytes) end
        end
      end
    end
  end)

  it("have the type of reduce_dtype, and stored gradients keep theirs", function()
    for zero, times in pairs { [0] = 1, 1, 4, 4 } do
      local function of(more)
        local e, bytes = make(dense, with(merged({ zero = zero }, more))), 0.0
        for _, m in ipairs(timeline.of(e).stages[1].messages) do
          if m.lane == "gradients" then bytes = bytes + m.bytes end
        end
        return bytes, e.stages[1].gradient_bytes, e.stages[1].gradient_seconds
      end
      local bytes, held, seconds = of { gradient_dtype = "fp32", reduce_dtype = "bf16" }
      local narrow, half_held, narrow_seconds = of { gradient_dtype = "bf16" }
      assert.near(times * half * 2, bytes, 1e-6 * half)
      assert.same({ narrow, 2 * half_held, narrow_seconds }, { bytes, held, seconds })
      assert.equal(times * half * 4 // 1e4, of { gradient_dtype = "bf16", reduce_dtype = "fp32" } // 1e4)
    end
  end)

  it("under ZeRO-3 without resharding gather for forward passes only", function()
    local bytes = 0.0
    for _, m in ipairs(timeline.of((make(dense, with { zero = 3, reshard = false }))).stages[1].messages) do
      if m.lane == "weights" then bytes = bytes + m.bytes end
    end
    assert.near(4 * half * 2, bytes, 1e-6 * half)
  end)

  it("under ZeRO-3 have the sizes of their layers, in the order of the pass", function()
    -- By hand: embedding and head have 32000 rows, the head also the last norm. A backward pass begins with the head.
    local table_bytes = 2 * 32000 * 2048
    for _, overlaps in ipairs { false, true } do
      local e = make(dense, { dp = 8, micro_batches = 1, zero = 3, overlap_parameters = overlaps })
      local stage = timeline.of(e).stages[1]
      local start, list = stage.units[2].start, { F = {}, B = {} }
      for _, m in ipairs(stage.messages) do
        if m.lane == "weights" then table.insert(m.start < start and list.F or list.B, m) end
      end
      for kind, ends in pairs { F = { 0, 2048 }, B = { 2048, 0 } } do
        local own = list[kind]
        assert.equal(12, #own)
        assert.equal(table_bytes + 2 * ends[1], own[1].bytes)
        assert.equal(table_bytes + 2 * ends[2], own[12].bytes)
        for i, m in ipairs(own) do assert.near(own[1].bytes / own[1].seconds, m.bytes / m.seconds, 1, i) end
      end
    end
    -- A layer of two has no experts, the other's follow its dense weights.
    local some = model.new("mixtral", { layers = 2, hidden = 1024, heads = 16, vocab = 32000, ffn = 4096, experts = 8,
      top_k = 2, first_dense_layers = 1 })
    local groups = {}
    for _, m in ipairs(timeline.of((make(some, { dp = 8, ep = 4, micro_batches = 1, zero = 3 }))).stages[1].messages) do
      if m.lane == "weights" then groups[#groups + 1] = m.group end
    end
    assert.same({ "dp", "dp", "dp", "expert dp", "dp", "dp", "dp", "expert dp", "dp", "dp" }, groups)
  end)

  it("leave out experts that no other rank has", function()
    local all = timeline.of((make(moe, { dp = 8, ep = 4, micro_batches = 2, zero = 3 }))).stages[1].messages
    local none = timeline.of((make(moe, { dp = 8, ep = 8, micro_batches = 2, zero = 3 }))).stages[1].messages
    local function bytes(list, lane, degree)
      local sum = 0.0
      for _, m in ipairs(list) do
        if m.lane == lane and (not degree or m.degree == degree) then sum = sum + m.bytes end
      end
      return sum
    end
    assert.near(bytes(none, "weights"), bytes(all, "weights", 8), 1)
    assert.near(2 * 2 * 2 * 4 * 2 * 3 * 1024 * 2048, bytes(all, "weights", 2), 1) -- passes, experts, layers, products
    assert.near(bytes(all, "weights"), bytes(all, "gradients"), 1)
    assert.near(bytes(none, "weights"), bytes(none, "gradients"), 1)
  end)

  it("of dense weights and of experts are apart, in the groups that share them", function()
    local none = make(moe, { dp = 8, ep = 8, micro_batches = 2, zero = 1 }) -- nobody shares experts
    local dense_parameters = none.stages[1].parameters - none.stages[1].expert_parameters
    local experts = 2 * 4 * 3 * 1024 * 2048 -- two a rank, layers, products
    for zero, times in pairs { [0] = 1, 1, 2, 2 } do
      for _, overlaps in ipairs { false, true } do
        local e = make(moe, { dp = 8, ep = 4, micro_batches = 2, zero = zero, overlap_gradients = overlaps,
          overlap_parameters = overlaps and zero > 0 or nil })
        local found = {}
        for _, m in ipairs(timeline.of(e).stages[1].messages) do
          if m.lane == "gradients" or m.lane == "weights" and zero < 3 then
            local id = ("%s %s %d"):format(m.lane, m.group, m.degree)
            local one = found[id] or { bytes = 0.0, seconds = 0.0, ranks = timeline.ranks(e.plan, m, 1) }
            found[id], one.bytes, one.seconds = one, one.bytes + m.bytes, one.seconds + m.seconds
          end
        end
        local own, shared = found["gradients expert dp 2"], found["gradients dp 8"]
        assert.same({ 1, 5 }, own.ranks)
        assert.near(times * 4 * experts, own.bytes, 1)
        assert.near(times * 4 * dense_parameters, shared.bytes, 1)
        if zero == 1 and not overlaps then
          assert.near(none.stages[1].gradient_seconds, shared.seconds, 1e-12)
          assert.near(none.stages[1].gather_seconds, found["weights dp 8"].seconds, 1e-12)
          assert.near(e.stages[1].gather_seconds - none.stages[1].gather_seconds,
            found["weights expert dp 2"].seconds, 1e-12)
        end
        if zero == 1 or zero == 2 then
          assert.near(2 * experts, found["weights expert dp 2"].bytes, 1)
          assert.near(2 * dense_parameters, found["weights dp 8"].bytes, 1)
        end
      end
    end
  end)

  it("between replicas of whole shards of experts are sums", function()
    local e, found = make(moe, { dp = 8, ep = 4, micro_batches = 2, zero = 3, shard = 4 }), {}
    for _, m in ipairs(timeline.of(e).stages[1].messages) do
      if m.lane == "gradients" then found[m.group] = ("%s of %d"):format(m.name, m.degree) end
    end
    assert.same({ dp = "reduce_scatter of 4", ["dp replicas"] = "all_reduce of 2", ["expert dp"] = "all_reduce of 2" },
      found)
  end)

  it("have a count, also if they take no time", function()
    local function answer(seconds) return function() return exactly(seconds) end end
    local e = estimate.new { model = dense, cluster = "dgx_h100", units = true,
      profile = { operator = answer(1e-3), collective = answer(0) },
      plan = { pp = 2, tp = 2, seq = 512, micro_batches = 2, scatter_sends = true } }
    assert.same({ "all_gather", 1 }, { timeline.of(e).stages[2].units[1].parts[1].name,
      timeline.of(e).stages[2].units[1].parts[1].times })
  end)

  it("between replicas alone overlap passes where reduce-scatters block the device", function()
    local e = estimate.new { model = model.new "qwen3-8b", cluster = "tpu_v6e", units = true, plan = { seq = 4096,
      dp = 32, shard = 4, zero = 3, micro_batches = 1, recompute = "full", gradient_dtype = "fp32" } }
    local s, hidden, late, bytes = e.stages[1], 0.0, {}, {}
    for _, m in ipairs(timeline.of(e).stages[1].messages) do
      if m.lane == "gradients" then
        if m.exposed then late[m.name] = (late[m.name] or 0.0) + m.seconds else hidden = hidden + m.seconds end
        assert.is_true(m.exposed or m.name == "all_reduce")
        assert.is_true(m.name == "all_reduce" or m.start >= s.pipeline_seconds)
        bytes[m.name] = (bytes[m.name] or 0.0) + m.bytes
      end
    end
    assert.is_true(hidden > 0)
    assert.near(s.gradient_seconds - s.gradient_exposed_seconds, hidden, 1e-9)
    assert.near(s.gradient_seconds * (1 - s.replica_share), late.reduce_scatter, 1e-9)
    assert.near(s.gradient_seconds * s.replica_share - hidden, late.all_reduce, 1e-9)
    assert.near(4 * s.parameters, bytes.reduce_scatter, 1)
    assert.near(s.parameters, bytes.all_reduce, 1) -- of a quarter
  end)

  it("between replicas of shards follow those inside the shards, with their own bytes, seconds and ranks", function()
    local flat = { name = "flat", path = "spec", gpus_per_node = 8, device = { name = "D", memory_bytes = 80e9,
      peak_flops = { bf16 = 1e14, fp32 = 5e13 }, memory_bandwidth = 1e12 } }
    local each = { reduce_scatter = 1e-9, all_reduce = 7e-9 }
    local profile = { operator = function() return { seconds = 1e-3, low_seconds = 1e-3, high_seconds = 1e-3,
      provenance = "measured" } end,
    collective = function(_, kind, bytes)
      return exactly(bytes * (each[kind] or 0))
    end }
    for _, case in ipairs { { zero = 1 }, { zero = 2 }, { zero = 3 }, { zero = 1, gradient_all_reduce = true },
      { zero = 2, overlap_gradients = true }, { zero = 1, bucket_bytes = 1e7 },
      { zero = 3, stack = "plain:defers_gradients" },
      { zero = 1, pp = 2, schedule = "chimera", micro_batches = 4 } } do
      local plan = merged({ dp = 8, shard = 4, seq = 512, micro_batches = 2, clip_gradients = false }, case)
      local e = estimate.new { model = dense, plan = plan, cluster = flat, units = true, profile = profile }
      local found = {}
      for _, m in ipairs(timeline.of(e).stages[1].messages) do
        if m.lane == "gradients" then
          local one = found[m.group] or { bytes = 0.0, seconds = 0.0, name = m.name, degree = m.degree,
            ranks = timeline.ranks(e.plan, m, 1) }
          found[m.group], one.bytes, one.seconds = one, one.bytes + m.bytes, one.seconds + m.seconds
        end
      end
      local copies, inside, between = plan.schedule and 2 or 1, found.dp, found["dp replicas"]
      assert.same({ "all_reduce", 2 }, { between.name, between.degree })
      assert.same({ 1, 5 }, between.ranks)
      assert.same({ case.gradient_all_reduce and "all_reduce" or "reduce_scatter", 4 * copies },
        { inside.name, inside.degree })
      assert.same({ 0, 1, 2, 3 }, table.move(inside.ranks, 1, 4, 1, {}))
      local bytes = 4 * e.stages[1].parameters * (case.zero > 1 and not case.stack and plan.micro_batches or 1)
      assert.near(bytes, inside.bytes, 1)
      assert.near(case.gradient_all_reduce and bytes or bytes / 4 / copies, between.bytes, 1)
      assert.near(inside.bytes * each[inside.name], inside.seconds, 1e-9)
      assert.near(between.bytes * each.all_reduce, between.seconds, 1e-9)
    end
  end)

  local function sum(messages, lane, of)
    local total = 0.0
    for _, m in ipairs(messages) do if m.lane == lane then total = total + of(m) end end
    return total
  end
  local function seconds_of(m) return m.seconds end
  local function bytes_of(m) return m.bytes end

  for _, case in ipairs { { "one stage", dense, with { zero = 3 } }, { "shards", dense, with { zero = 3, shard = 4 } },
    { "no resharding", dense, with { zero = 3, pp = 2, reshard = false } },
    { "chunks", dense, with { zero = 3, pp = 2, vp = 2, schedule = "interleaved" } },
    { "two ways", dense, with { zero = 3, pp = 2, schedule = "chimera" } },
    { "two ways without replicas", dense, { zero = 3, pp = 2, micro_batches = 4, schedule = "chimera" } },
    { "experts", moe, { zero = 3, dp = 8, ep = 4, micro_batches = 2 } },
    { "tensor ranks of experts", moe, { zero = 3, dp = 8, tp = 2, etp = 1, ep = 4, micro_batches = 2 } } } do
    it("under ZeRO-3 take the exposed and the overlapped seconds of the estimate: " .. case[1], function()
      for _, overlaps in ipairs { false, true } do
        local plan = merged(case[3], { overlap_parameters = overlaps })
        local e, all, line = make(case[2], plan), 0.0, nil
        for _, stage in ipairs(timeline.of(e).stages) do
          all = all + sum(stage.messages, "weights", seconds_of) / e.plan.pp
        end
        for _, own in ipairs(e.collectives) do if own.name == "all_gather" and own.group == "dp" then line = own end end
        assert.near(all, line.seconds + line.overlapped_seconds, 1e-9 * all)
        assert.equal(overlaps, line.overlapped_seconds > 0.5 * all)
      end
    end)
  end

  it("have the bytes of both slices of a stage and the ranks of both stages under a two-way schedule", function()
    for zero, times in pairs { [0] = 1, 1, 2, 2 } do -- of four micro-batches, each slice of a stage has two
      local e = make(dense, { pp = 4, dp = 2, micro_batches = 4, schedule = "chimera", zero = zero })
      for s, stage in ipairs(timeline.of(e).stages) do
        assert.near(times * 4 * e.stages[s].parameters, sum(stage.messages, "gradients", bytes_of), 1)
        for _, m in ipairs(stage.messages) do
          if m.lane == "gradients" then
            assert.equal(4, m.degree)
            local first, other = 2 * (s - 1), 2 * (4 - s)
            local low = math.min(first, other)
            assert.same({ low, low + 1, 6 - low, 7 - low }, timeline.ranks(e.plan, m, first))
          end
        end
      end
    end
  end)

  it("to other stages have the bytes of the slice before them", function()
    local t5 = model.new("encoder_decoder", { layers = 4, encoder_layers = 4, hidden = 1024, heads = 16, ffn = 4096,
      vocab = 32000, encoder_seq = 512 })
    local found = {}
    for s, stage in ipairs(timeline.of((make(t5, { pp = 4, micro_batches = 2 }))).stages) do
      for _, m in ipairs(stage.messages) do
        if m.lane == "sends" then found[("%d-%d"):format(s, m.to)] = m.bytes end
      end
    end
    local encoded, all = 2 * 1024 * 512, 2 * 1024 * (512 + 2048) -- the decoder passes on the encoder's output
    assert.same({ ["1-2"] = encoded, ["2-1"] = encoded, ["2-3"] = encoded, ["3-2"] = encoded, ["3-4"] = all,
      ["4-3"] = all }, found)
  end)

  it("show ett trace the ZeRO stage", function()
    for zero = 0, 3 do
      for _, overlaps in ipairs { false, true } do
        local e = make(dense, with { zero = zero, overlap_gradients = overlaps })
        folder.within(function(place)
          chrome_trace.write(e, place .. "/step.json")
          local args = require("ett.loop.against").args
          local view <close> = assert(require("ett.trace.view").open(place, { args = args }))
          assert.equal(zero, require("ett.loop.layout").read(view).zero.value)
        end)
        folder.within(function(place)
          local plan = { dp = 8, ep = 4, zero = zero, micro_batches = 2, overlap_gradients = overlaps }
          chrome_trace.write(make(moe, plan), place .. "/step.json")
          local args = require("ett.loop.against").args
          local view <close> = assert(require("ett.trace.view").open(place, { args = args }))
          local found = require("ett.loop.layout").read(view)
          assert.same({ zero, 8, 4 }, { found.zero.value, found.dp.value, found.ep.value })
        end)
      end
    end
  end)
end)

-- The definitions in the pages of pipeline_bubble and temporal_breakdown, computed from one exported step.
describe("the bubble of an exported step", function()
  it("is the estimate's over the whole pipeline, the metrics' over the span of each stage", function()
    local e = make(dense, { pp = 4, tp = 2, dp = 1, micro_batches = 6 })
    folder.within(function(place)
      chrome_trace.write(e, place .. "/step.json")
      local metrics = require "ett.trace.metrics"
      local args = require("ett.trace.collective").args
      local view <close> = assert(require("ett.trace.view").open(place, { args = args }))
      local messages = view.trace:name_set(function(name) return name:find("SendRecv", 1, true) ~= nil end, "kernel")
      local ranges = view:named_rows("stage_ranges", { "device_annotation" }, function(name)
        return name:find "^Stage %d+ [FB]" ~= nil
      end)
      local first, last = ranges:span()
      local idle, outside, empty, spans = 0, 0, 0, 0
      for _, lane in ipairs(view:lanes()) do
        local from, to = lane:span()
        local units = ranges:where { device = lane.device, file = lane.process.files }:intervals()
        local sends = lane:rows("comm"):where { names = messages }:intervals()
        idle = idle + last - first - (units | sends):measure()
        outside, spans = outside + units:gaps(from, to):measure(), spans + to - from
        empty = empty + lane:busy():gaps(from, to):measure()
      end
      assert.near(e.bubble_percent, 100 * idle / (#view:lanes() * (last - first)), 1e-3)
      assert.near(outside / spans, metrics.compute(metrics.load "pipeline_bubble", view).bubble_ratio, 1e-12)
      assert.near(empty / spans, metrics.compute(metrics.load "temporal_breakdown", view).idle_share, 1e-12)
      assert.is_true(empty < outside)
    end)
  end)
end)

describe("the link to the host", function()
  it("carries a small share of states beside an update that takes longer", function()
    for _, bytes in ipairs { 12, 4 } do
      local e = make(dense, { pp = 2, micro_batches = 2, optimizer_bytes = bytes, offload_optimizer = 1e-4 })
      for s, stage in ipairs(timeline.of(e).stages) do
        local carried = 0.0
        for _, m in ipairs(stage.messages) do if m.lane == "to host" then carried = carried + m.seconds end end
        assert.is_true(carried > 0 and carried < e.stages[s].optimizer_seconds)
      end
    end
  end)

  it("carries the transfers that units and the update wait for", function()
    local bound = { unit = 0, update = 0, W = 0 }
    for recompute, schedule in pairs { none = "1f1b", selective = "zb_h1", policy = "chimera", full = "1f1b" } do
      local e = make(dense, { pp = 4, dp = 2, micro_batches = 4, zero = 1, schedule = schedule, recompute = recompute,
        offload_activations = 0.8, offload_weights = 0.1, offload_optimizer = 1,
        offload_gradients = schedule == "zb_h1" and 0.5 or 0 })
      for s, stage in ipairs(timeline.of(e).stages) do
        local update
        for _, m in ipairs(stage.messages) do if m.lane == "update" then update = m end end
        local function carried(micro_batch, from, seconds)
          local sums = { ["to host"] = 0.0, ["from host"] = 0.0 }
          for _, m in ipairs(stage.messages) do
            if sums[m.lane] and m.micro_batch == micro_batch and m.start >= from - 1e-12
              and m.start < from + seconds - 1e-12 then sums[m.lane] = sums[m.lane] + m.seconds end
          end
          return math.max(sums["to host"], sums["from host"])
        end
        for _, unit in ipairs(stage.units) do
          local pass = 0.0
          for _, part in ipairs(unit.parts) do pass = pass + (part.resource ~= "wait" and part.seconds or 0.0) end
          local host = carried(unit.micro_batch, unit.start, unit.seconds)
          assert.near(unit.seconds, math.max(pass, host), 1e-12)
          bound.unit = bound.unit + (host > pass and 1 or 0)
          bound.W = bound.W + (unit.kind == "W" and host > pass and 1 or 0) -- gradients
        end
        -- The host reads and writes the states (24 bytes), reads gradients (4) and writes weights (2).
        local weights = 0.0
        for _, m in ipairs(stage.messages) do
          if m.lane == "from host" and m.start >= update.start - 1e-12 then weights = weights + m.bytes / 2 end
        end
        local host = weights * 30 / (0.15 * 76.8e9)
        assert.is_true(host > carried(nil, update.start, update.seconds))
        assert.near(update.seconds, host, 1e-9 * update.seconds)
        bound.update = bound.update + 1
        assert.near(e.stages[s].optimizer_seconds, update.seconds, 1e-12)
      end
    end
    assert.is_true(bound.unit > 30 and bound.update == 16 and bound.W > 8)
  end)

  it("does not run the host's update as a kernel", function()
    for _, share in ipairs { 0.5, 1 } do
      local e = make(dense, { pp = 2, micro_batches = 2, offload_optimizer = share })
      local kernels, host = { 0.0, 0.0 }, { 0.0, 0.0 }
      for _, event in ipairs(chrome_trace.of(e).traceEvents) do
        if event.name == "optimizer" then
          assert.equal("kernel", event.cat)
          kernels[event.pid + 1] = kernels[event.pid + 1] + event.dur
        elseif event.name == "optimizer (host)" then
          assert.same({ "user_annotation", 2 }, { event.cat, event.pid })
          host[event.args.Stage] = host[event.args.Stage] + event.dur
        end
      end
      for s, stage in ipairs(e.stages) do
        assert.equal(share < 1, kernels[s] > 0)
        assert.near(stage.optimizer_kernel_seconds * 1e6, kernels[s], 2e-3)
        assert.near((stage.optimizer_seconds - stage.optimizer_kernel_seconds) * 1e6, host[s], 2e-3)
        assert.is_true(host[s] > 1000)
      end
    end
  end)

  it("has separate copy streams in the trace, and none without offloading", function()
    local function copies(plan)
      local list = {}
      for _, event in ipairs(chrome_trace.of((make(dense, plan))).traceEvents) do
        if event.cat == "gpu_memcpy" then list[event.tid] = (list[event.tid] or 0) + 1 end
      end
      return list
    end
    assert.same({ [36] = 6, [40] = 6 }, copies { pp = 2, micro_batches = 3, offload_activations = 0.5 })
    assert.same({}, copies { pp = 2, micro_batches = 3 })
  end)
end)

describe("the transfers of a step", function()
  it("are those of the event engine, on the links of each stage", function()
    local e = make(dense, { pp = 4, tp = 2, dp = 4, zero = 1, micro_batches = 6, overlap_gradients = true,
      overlap_parameters = true, overlap_sends = true })
    for number, stage in ipairs(timeline.of(e).stages) do
      local s, sends, free, reduced, gathered = e.stages[number], 0, { node = 0.0, network = 0.0 }, 0.0, nil
      for _, m in ipairs(stage.messages) do
        if m.lane == "sends" then
          sends = sends + 1
          assert.is_true(m.start >= free[m.link] - 1e-12, "one send at a time")
          free[m.link] = m.start + m.seconds
        elseif m.lane == "gradients" then
          reduced = math.max(reduced, m.start + m.seconds)
        elseif m.lane == "weights" then
          gathered = m
        end
      end
      assert.equal((number == 1 or number == 4) and 6 or 12, sends)
      assert.near(s.pipeline_seconds + s.gradient_exposed_seconds, reduced, 1e-12)
      assert.equal(0.0, gathered.start)
      assert.is_true(gathered.seconds >= s.gather_seconds * (1 - 1e-9))
      local of_lane = {}
      for _, event in ipairs(chrome_trace.of(e).traceEvents) do
        if event.pid == number - 1 and event.args and event.args.Link then
          of_lane[event.tid] = (of_lane[event.tid] or 0) + 1
        end
      end
      assert.equal(sends, of_lane[28])
      assert.is_true(of_lane[32] >= 1 and of_lane[34] >= 1)
    end
  end)
end)

--- Checks a trace against the Trace Event Format: phases, and the fields that each needs.
local function check_format(trace)
  local named = {}
  for _, event in ipairs(trace.traceEvents) do
    assert.equal("string", type(event.name))
    assert.equal("integer", math.type(event.pid))
    assert.equal("integer", math.type(event.tid))
    assert.equal("number", type(event.ts))
    if event.ph == "X" then
      assert.is_true(event.ts >= 0 and event.dur >= 0)
      assert.equal("table", type(event.args))
    else
      assert.equal("M", event.ph)
      named[event.name] = true
    end
  end
  assert.same({ process_name = true, process_sort_index = true, thread_name = true }, named)
end

describe("the Chrome trace of a step", function()
  it("is a valid trace, and ett trace reads its metrics back", function()
    local e = make(dense, { pp = 4, tp = 2, dp = 2, micro_batches = 6 })
    folder.within(function(place)
      local path = chrome_trace.write(e, place .. "/new/run/")
      local file = assert(io.open(path))
      local trace = json.decode(file:read("a"))
      file:close()
      check_format(trace)
      local metrics = require "ett.trace.metrics"
      local all = metrics.load_all(metrics.names())
      local view <close> = assert(require("ett.trace.view").open(place .. "/new/run", { args = metrics.args(all) }))
      local found = {}
      for _, metric in ipairs(all) do found[metric.name] = metrics.compute(metric, view) or nil end
      assert.near(e.step_seconds * 1e3, found.iter_time.avg_iter_time_ms, 1e-5)
      assert.near(e.tokens_per_second, found.throughput_tokens.throughput_tokens_per_s, e.tokens_per_second * 1e-6)
      assert.near(e.step_seconds, found.wall_time_s.per_device["0:0"], 1e-5)
      assert.equal("stage markers", found.pipeline_bubble.method)
      for s, stage in ipairs(e.stages) do
        local breakdown = found.temporal_breakdown.ranks[("0:%d"):format(s - 1)]
        local compute = 0.0
        for _, each in ipairs(trace.traceEvents) do
          local kernel = each.cat == "kernel" and each.pid == s - 1
          if kernel and not each.args["Collective name"] then compute = compute + each.dur end
        end
        assert.near(compute / 1e3, breakdown.compute_ms, 0.01)
        assert.is_true(compute / 1e6 <= stage.end_seconds)
      end
      -- 10 layers x 2 x 6 micro-batches, forward and backward, and the embedding's and head's own: by hand.
      local calls = 0
      for _, row in ipairs(found.collective_table.collectives) do
        local of_layer = row.kind == "all_reduce" and row.group_size == 2 and row.bytes == 2048 * 2048 * 2
        if of_layer then calls = calls + row.calls end
      end
      assert.is_true(calls >= 10 * 2 * 6 * 2)
      -- Absent are those that need a host, counters of kernels, ranks of one group, serving, experts, or a TPU.
      for _, name in ipairs { "achieved_flops_from_trace_json", "allreduce_comm_time_s", "avg_comm_bandwidth_GBps",
        "coll_call_num", "collective_table", "comm_comp_overlap", "communication_fraction", "device_time",
        "hockney_alpha_s", "iter_time", "kernel_breakdown", "mfu", "num_comm_kernels", "pipeline_bubble", "step_table",
        "temporal_breakdown", "throughput_tokens", "total_comm_time_s", "total_compute_time_s",
        "total_model_flops_from_args", "traffic_distribution", "traffic_window", "wall_time_s" } do
        assert.is_truthy(found[name], name)
      end
    end)
  end)

  for what, given in pairs { ["of a pair of units"] = { dense, { pp = 4, micro_batches = 8, schedule = "dualpipe" } },
    ["of a pair that hides all-to-alls"] = { moe, { pp = 2, dp = 4, ep = 4, micro_batches = 8, schedule = "dualpipe",
      overlap_all_to_all = "batch" } },
    ["of a link that products hide"] = { dense, { pp = 2, tp = 4, micro_batches = 4, sequence_parallel = true,
      overlap_tensor = true } },
    ["of gradients or weights"] = { wide, { dp = 8, zero = 3, micro_batches = 2, stack = "torchtitan" } },
    ["of a link from one unit to the next"] = { wide, { pp = 2, vp = 2, tp = 8, micro_batches = 4, stack = "megatron",
      schedule = "interleaved", sequence_parallel = true } } } do
    it("never runs two kernels " .. what .. " at once, also where they are joined", function()
      local e = make(table.unpack(given))
      local most = chrome_trace.most_events
      for _, events in ipairs { most, 10 } do
        chrome_trace.most_events = events
        local streams = {}
        for _, event in ipairs(chrome_trace.of(e).traceEvents) do
          local id = event.cat == "kernel" and event.pid .. " " .. event.tid
          if id then
            streams[id] = streams[id] or {}
            table.insert(streams[id], event)
          end
        end
        for id, list in pairs(streams) do
          table.sort(list, function(a, b) return a.ts < b.ts end)
          for i = 2, #list do assert.is_true(list[i].ts >= list[i - 1].ts + list[i - 1].dur - 0.01, id) end
        end
      end
      chrome_trace.most_events = most
    end)
  end

  it("states the elements of messages in the type that they have under fp8", function()
    local p = { tp = 2, dp = 4, ep = 4, micro_batches = 2, zero = 1, dtype = "fp8", sequence_parallel = true }
    local function elements(stack)
      p.stack = stack
      local found = {}
      for _, event in ipairs(chrome_trace.of((make(moe, p))).traceEvents) do
        local args = event.args or {}
        if args["Collective name"] then
          local id = ("%s %s %s"):format(args["Collective name"], args["Process Group Name"], args.dtype)
          found[id] = found[id] or {}
          found[id][args["Out msg nelems"]] = true
        end
      end
      return found
    end
    local stream = 2048 * 1024 -- of a micro-batch
    local plain, megatron = elements "plain", elements "megatron" -- Transformer Engine gathers quantised operands
    assert.is_true(plain["all_gather tp BFloat16"][stream])
    assert.is_true(plain["reduce_scatter tp BFloat16"][stream // 2])
    assert.is_nil(plain["all_gather tp Float8_e4m3fn"])
    assert.is_true(megatron["all_gather tp Float8_e4m3fn"][stream])
    assert.is_true(megatron["reduce_scatter tp BFloat16"][stream // 2])
    for _, found in ipairs { plain, megatron } do
      assert.is_truthy(found["all_gather dp BFloat16"])
      assert.is_nil(found["all_gather dp Float8_e4m3fn"])
    end
  end)

  it("joins the kernels of a unit where there are too many, with the same compute time", function()
    local e = make(dense, { pp = 2, tp = 2, micro_batches = 3 })
    local function compute(trace)
      local sum, count = 0.0, 0
      for _, each in ipairs(trace.traceEvents) do
        if each.cat == "kernel" and each.tid == 7 then sum, count = sum + each.dur, count + 1 end
      end
      return sum, count
    end
    local whole, many = compute(chrome_trace.of(e))
    local most = chrome_trace.most_events
    chrome_trace.most_events = 10
    local trace = chrome_trace.of(e)
    chrome_trace.most_events = most
    local sum, few = compute(trace)
    assert.near(whole, sum, 0.2)
    assert.equal(2 * 6 + 2, few) -- a kernel a unit, and the update of each stage
    assert.is_true(many > 10 * few)
    assert.is_true(trace.predictedBy.joined)
  end)
end)

describe("what would help", function()
  it("is the step with faster rates or another field, and dearer rates help more", function()
    local e, what = make(dense, { pp = 2, tp = 2, dp = 2, micro_batches = 4 })
    local rows = require("ett.step.page.sensitivity").of(e, what)
    local by_text = {}
    for i, row in ipairs(rows) do
      by_text[row.text] = row
      assert.is_true(i == 1 or rows[i - 1].saved >= row.saved)
    end
    local function seconds(change)
      local plan = merged({ pp = 2, tp = 2, dp = 2, micro_batches = 4, seq = 2048 }, change)
      return estimate.new({ model = dense, plan = plan, cluster = "dgx_h100" }).step_seconds
    end
    assert.equal(seconds { recompute = "full" }, by_text["recompute none → full"].seconds)
    assert.equal(seconds { tp = 4, dp = 1, micro_batches = 8 }, by_text["tp 2 → 4"].seconds)
    local products = by_text["matrix products and attention 10 % faster"]
    local share = 0.0
    local own = { linear_qkv = 1, flash_attention = 1, linear_proj = 1, linear_up = 1, linear_down = 1, lm_head = 1 }
    for _, line in ipairs(e.operators) do
      if own[line.name] then share = share + line.seconds / e.step_seconds end
    end
    -- At least the share of a device's own products; at most that and the bubble's.
    assert.is_true(products.saved > share * (1 - 1 / 1.1) * 0.99 and products.saved < 1 - 1 / 1.1)
  end)

  it("follows the overlaps of the stack under the changed schedule", function()
    local e, what = make(dense, { pp = 2, dp = 2, micro_batches = 4, stack = "megatron" })
    local plan = { pp = 2, dp = 2, micro_batches = 4, seq = 2048, stack = "megatron", schedule = "interleaved", vp = 2 }
    local interleaved = estimate.new { model = dense, plan = plan, cluster = "dgx_h100" }
    assert.is_false(e.plan.overlap_sends)
    assert.is_true(interleaved.plan.overlap_sends)
    for _, row in ipairs(require("ett.step.page.sensitivity").of(e, what)) do
      if row.text == "interleaved, vp 2" then assert.equal(interleaved.step_seconds, row.seconds) return end
    end
    error "no row of the interleaved schedule"
  end)

  it("proposes only what the stack's software has", function()
    local function proposed(plan)
      local e, what = make(dense, plan)
      local words = {}
      for _, row in ipairs(require("ett.step.page.sensitivity").of(e, what)) do words[row.text] = true end
      return words
    end
    local words = proposed { pp = 2, dp = 4, micro_batches = 4, zero = 1, stack = "megatron" }
    assert.is_true(words["zero 1 → 0"] and words["interleaved, vp 2"])
    for _, text in ipairs { "zero 1 → 2", "zero 1 → 3", "schedule gpipe", "schedule zb_h1",
      "overlap_parameters false → true" } do
      assert.is_nil(words[text])
    end
    words = proposed { pp = 2, dp = 4, micro_batches = 4, zero = 1, stack = "gpt_neox" }
    for text in pairs(words) do
      assert.is_nil(text:find "schedule" or text:find "interleaved" or text:find "zero 1 → [23]")
    end
    assert.is_true(proposed({ pp = 2, dp = 4, micro_batches = 4 })["schedule zb_h1"])
    for _, stack in ipairs { "gpt_neox", "transformers" } do
      assert.is_nil(proposed({ dp = 8, micro_batches = 4, zero = 3, stack = stack })["pp 1 → 2"])
    end
  end)

  it("names other values of recompute, and other numbers of layers", function()
    local own = { recompute = "full", recompute_layers = 2, micro_batches = 4 }
    local e, what = make(dense, own)
    local by_text = {}
    for _, row in ipairs(require("ett.step.page.sensitivity").of(e, what)) do by_text[row.text] = row.seconds end
    local function seconds(change)
      return estimate.new({ model = dense, cluster = "dgx_h100",
        plan = merged({ seq = 2048, micro_batches = 4 }, change) }).step_seconds
    end
    for _, value in ipairs { "none", "selective", "policy" } do
      assert.equal(seconds { recompute = value }, by_text["recompute full → " .. value])
    end
    for _, n in ipairs { 1, 4 } do
      assert.equal(seconds { recompute = "full", recompute_layers = n }, by_text["recompute_layers 2 → " .. n])
    end
  end)
end)

describe("the page of a step", function()
  it("has a lane a stage and the resources of each, and no estimate changes for it", function()
    local e, what = make(dense, { pp = 2, micro_batches = 2 })
    local plain = estimate.new { model = dense, plan = { pp = 2, micro_batches = 2, seq = 2048 }, cluster = "dgx_h100" }
    assert.equal(plain.step_seconds, e.step_seconds)
    local page = require("ett.step.page").new(e, what)
    local groups = page.data.timeline.groups
    assert.equal(3, #groups)
    assert.equal(2, #groups[1].lanes)
    assert.equal("compute", groups[2].lanes[1].resource)
    assert.equal(groups[1].lanes[1].id, groups[2].lanes[1].like)
    assert.is_true(#page.data.sensitivity > 10)
    e.fits, e.fit_percent = false, 8.4 -- of rows of faster hardware, too
    page = require("ett.step.page").new(e, what)
    assert.equal("8 %", page.data.fits)
    local fits = {}
    for _, row in ipairs(page.data.sensitivity) do fits[row.kind == "rate" and "rate" or row.fits] = row.fits end
    assert.same({ rate = "8 %", yes = "yes" }, fits)
    e = make(dense, { dp = 2, micro_batches = 2, stack = "torchtitan" })
    for _, row in ipairs(require("ett.step.page").new(e).data.plan) do
      if row[1] == "overlap_gradients" then assert.same({ "true", true }, { row[2], row[4] }) end
    end
  end)
end)

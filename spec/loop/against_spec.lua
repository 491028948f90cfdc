-- Recorded runs beside predicted ones: traces of a known plan, whose kernels take known times.
local against = require "ett.loop.against"
local layout = require "ett.loop.layout"
local maker = require "trace_maker"
local near = require "near"
local raised = require "raised"
local report = require "ett.loop.report"
local subject = require "ett.loop.subject"
local trace_gpt = require "trace_gpt"

local size = { hidden = 2048, heads = 16, layers = 4, seq = 1024, batch = 4, vocab = 32768 }

--- Predicted seconds of each operator of the model, by an estimate's own times.
local function predicted(tp, times)
  local model = require("ett.model").new("gpt", { layers = size.layers, hidden = size.hidden, heads = size.heads,
    vocab = size.vocab, vocab_multiple = 1, bias = false })
  local plan = require("ett.plan").new({ tp = tp, seq = size.seq, micro_batch = size.batch, micro_batches = 1,
    dtype = times and "fp16" or "bf16" }, model)
  times = times or require("ett.step.times").new(require("ett.profile.cluster").get "dgx_h100"):for_stack "plain"
  local seconds = { forward = {}, backward = {} }
  local c = require("ett.model.architecture").configuration(model.hyper, plan)
  for _, layer in ipairs(model.layers) do
    for _, item in ipairs(require("ett.model.architecture").operations(layer, c)) do
      if item.kind == "operator" then
        for pass, list in pairs(seconds) do
          list[item.name] = times:operator(item.operator, item.shape, plan.dtype, pass).seconds
        end
      end
    end
  end
  return seconds
end

local function recordings(tp, factor, more)
  local seconds = predicted(tp, more and more.times_of)
  local options = { tp = tp, times = function(name, pass)
    local time = (seconds[pass][name] or 50e-6) * 1e6 * (factor and factor(name, pass) or 1)
    return math.floor(time * 1000 + 0.5) / 1000
  end }
  for name, value in pairs(size) do options[name] = value end
  for name, value in pairs(more or {}) do options[name] = value end
  local gpt, list = trace_gpt.new(options), {}
  for rank = 0, tp - 1 do list[rank + 1] = gpt:recording { rank = rank, world = tp } end
  return list, seconds
end

local function open(folder) return assert(require("ett.trace.view").open(folder, { args = against.args })) end

--- Adds a kernel of each group { description, kind of collective, ranks }.
local function add_groups(r, groups)
  for i, each in ipairs(groups) do
    r:kernel("ncclDevKernel_x", 100 * i, 50, { stream = 9 + i, args = { ["Collective name"] = each[2],
      ["In msg nelems"] = 1000, dtype = "BFloat16", ["Group size"] = each[3], ["Process Group Name"] = tostring(i),
      ["Process Group Description"] = each[1] } })
  end
  return r
end

local function view_of(list) return maker.view(list, { args = against.args }) end

local function compare(list, given)
  local view <close> = view_of(list)
  local what = subject.of(view, given)
  local result = against.compare(view, what)
  return result, what
end

--- The table of an operator file, for changes; by default the kernel's shape is the operator's.
local function file_of(name)
  local op = assert(loadfile(require("ett.host").root .. "/operators/" .. name .. ".lua"))()
  op.kernel_shape = op.kernel_shape or function(s) return s end
  return op
end

local function row_of(result, name, pass)
  for _, row in ipairs(result.operators) do if row.name == name and row.pass == pass then return row end end
end

describe("ett.loop.against", function()
  it("measures every operator in both passes beside its prediction", function()
    local list, seconds = recordings(2, function(name, pass) return name == "linear_up" and pass == "forward"
      and 2 or 1 end)
    local result = compare(list, { cluster = "dgx_h100", plan = { stack = "plain" } })
    for _, name in ipairs { "linear_qkv", "flash_attention", "linear_proj", "layer_norm", "gelu", "linear_down" } do
      for _, pass in ipairs { "forward", "backward" } do
        local row = assert(row_of(result, name, pass), name .. " " .. pass)
        assert.near(seconds[pass][name], row.measured_seconds, 2e-9)
      end
    end
    assert.near(2 * seconds.forward.linear_up, row_of(result, "linear_up", "forward").measured_seconds, 2e-9)
    assert.equal("plain", result.stack)
    assert.equal(2 * 2 * size.layers, row_of(result, "residual_add", "forward").count)
    assert.same({}, result.notes)
    assert.same({ result.compared - 1, true }, { result.within_ten_percent, result.compared > 10 })
  end)

  it("recognises operators by declared fields, not by names", function()
    local expected, kinds = require "ett.loop.expected", require "ett.trace.operators.kinds"
    local hosts = { -- operator, shape, the host operator that PyTorch, Megatron or vLLM record for it
      { "layer_norm", { tokens = 6, hidden = 4 }, "aten::layer_norm", "[[2,3,4],[],[4],[4],[]]" },
      { "rms_norm", { tokens = 6, hidden = 4 }, "aten::rms_norm", "[[2,3,4],[],[4],[]]" },
      { "gelu", { tokens = 6, width = 8 }, "aten::gelu", "[[2,3,8],[]]" },
      { "swiglu", { tokens = 6, width = 8 }, "_C::silu_and_mul", "[[6,8],[6,16]]" },
      { "dropout", { rows = 6, cols = 8 }, "aten::dropout", "[[2,3,8],[],[]]" },
      { "softmax", { batch = 1, heads = 2, seq_q = 3, seq_k = 8 }, "aten::softmax", "[[1,2,3,8],[],[]]" },
      { "masked_softmax", { batch = 1, heads = 2, seq_q = 3, seq_k = 8 }, "ScaledUpperTriangMaskedSoftmax",
        "[[2,3,8],[]]" },
      { "fill_mask", { batch = 1, heads = 2, seq_q = 3, seq_k = 8 }, "aten::masked_fill", "[[1,2,3,8],[3,8],[]]" },
      { "moe_permute", { tokens = 6, hidden = 4, top_k = 2 }, "_moe_permute_mask_map", "[[6,4],[6,8],[],[]]" },
      { "moe_unpermute", { tokens = 6, hidden = 4, top_k = 2 }, "_moe_unpermute_mask_map", "[[12,4],[6,17],[],[]]" },
    }
    for _, host in ipairs(hosts) do
      local name, shape, recorded, dims = table.unpack(host)
      local copy = file_of(name)
      copy.name = "mine"
      assert.equal(kinds.of(recorded, dims).key, kinds.key(expected.operation(copy, shape)), name)
    end
    -- A file that declares nothing meets no host operator, whatever its name.
    local silent = file_of "gelu"
    silent.recorded = nil
    assert.is_nil(expected.operation(silent, { tokens = 6, width = 8 }))
  end)

  it("expects the parts of a fused product if the trace ran the parts", function()
    local expected = require "ett.loop.expected"
    local model = require("ett.model").new("llama", { layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 96,
      vocab = 512 })
    local plan = require("ett.plan").new({ seq = 32, micro_batch = 1, micro_batches = 1 }, model)
    local function widths(present)
      local list = {}
      for _, item in ipairs(expected.sequence(model, plan, present)) do
        if item.name == "linear_qkv" or item.name == "linear_up" then
          list[#list + 1] = ("%s %d"):format(item.name, item.shape.out_features)
        end
      end
      return table.concat(list, ", ", 1, #list // 2) -- of one of two equal layers
    end
    assert.equal("linear_qkv 128, linear_up 192", widths {})
    local parts = { ["gemm 1 32 64 64"] = true, ["gemm 1 32 32 64"] = true, ["gemm 1 32 96 64"] = true }
    assert.equal("linear_qkv 64, linear_qkv 32, linear_qkv 32, linear_up 96, linear_up 96", widths(parts))
    parts["gemm 1 32 128 64"] = true -- the fused product, too
    assert.equal("linear_qkv 128, linear_up 96, linear_up 96", widths(parts))
  end)

  it("splits the difference into parts that add up to it", function()
    local list = recordings(2, function() return 1.25 end)
    local result = compare(list, { cluster = "dgx_h100" })
    local sum = 0.0
    for _, part in pairs(result.split.residual) do sum = sum + part end
    assert.near(result.split.measured_seconds - result.split.predicted_seconds, sum, 1e-9)
    assert.is_true(result.split.residual.kernel_seconds > 0)
    assert.equal(1, #result.collectives)
    near({ measured_seconds = 62.5e-6, group_size = 2, group = "tp" }, result.collectives[1])
  end)

  it("is printed with the plan, every operator, the parts and the fit of the stack", function()
    local result, what = compare(recordings(2), { cluster = "dgx_h100", plan = { stack = "plain" } })
    local text = table.concat(report.against(result, what), "\n")
    assert.matches("^against gpt[^\n]* on dgx_h100: ", text)
    assert.matches("\nlinear_up +forward ", text)
    assert.matches("\nall_reduce %(tp%) ", text)
    assert.matches(" ms  waiting for late ranks\n", text)
    assert.matches("\nstack plain, [^\n]*: %d+ of " .. result.compared .. " operators within 10 %%, mean error ",
      text)
    for _, note in ipairs(result.notes) do assert.is_truthy(text:find("\nnote: " .. note, 1, true)) end
    local search = text:match "training step: ett ([^\n]+)$"
    assert.matches("^search %-%-model gpt %-%-cluster dgx_h100 %-%-devices 2 %-%-global%-batch 4 %-%-seq 1024 "
      .. "dtype=bf16 stack=plain .* hidden=2048 ", search)
    assert.matches("^gpt: [^\n]*layouts", (require("command").ett(".", search)))
  end)

  it("names the stack of processors for no GPU: its times are those of plain", function()
    local result = compare(recordings(2), { cluster = "dgx_h100" })
    local place = {}
    for i, each in ipairs(result.stacks) do place[each.stack .. each.rate] = i end
    for _, each in ipairs(result.stacks) do
      assert.is_true(place["plain" .. each.rate] < place["cpu" .. each.rate])
    end
  end)

  it("finds the rate and the stack that the kernels ran at", function()
    local list = recordings(1)
    local result = compare(list, { cluster = "dgx_h100" })
    -- Of the stacks with plain's kernels, plain counts.
    local best = result.stacks[1]
    assert.is_true(best.error < 1e-3, best.stack .. " " .. best.error)
    assert.equal("sustained", best.rate)
  end)

  it("reports an attention kernel different from the model's", function()
    local list = recordings(1)
    local result = compare(list, { cluster = "dgx_h100", hyper = { attention = "unfused" } })
    assert.matches("attention=unfused was given, but the trace shows flash", result.notes[1])
    assert.matches("the trace ran attention 'flash', the model has 'unfused'", result.notes[2])
    assert.is_nil(row_of(result, "flash_attention", "forward"))
  end)

  it("reports given fields that contradict the trace", function()
    local result = compare(recordings(2), { cluster = "dgx_h100", plan = { tp = 1 } })
    assert.matches("tp=1 was given, but the trace shows 2 %(certain", result.notes[1])
  end)

  it("does not compare products that the trace did not run, and says when nothing matches", function()
    local list = recordings(1)
    local result = compare(list, { cluster = "dgx_h100", hyper = { hidden = 1024, ffn = 4096 } })
    for _, row in ipairs(result.operators) do assert.is_not.equal("linear_up", row.name) end
  end)

  it("places a collective on the nodes of its listed ranks, or of neighbours", function()
    local topology = require("ett.loop.wires").topology
    for ranks, wanted in pairs { ["[0, 1, 8, 9]"] = { 2, 2 }, ["[0, 8, 16, 24]"] = { 4, 1 },
      ["[0, 1, 2, 8]"] = { 2, 3 }, ["[0, 8, ..., 24]"] = { 1, 4 } } do
      local placed = topology({ group_size = 4, group_ranks = ranks }, { gpus_per_node = 8 })
      assert.same({ wanted[1], wanted[2], 4 }, { placed.nodes, placed.gpus_per_node, placed.ranks }, ranks)
    end
  end)

  it("compares operators that ran on the host by their own durations", function()
    local list = recordings(1)
    for i = #list[1].events, 1, -1 do
      local category = list[1].events[i].cat
      if category == "kernel" or category == "cuda_runtime" then table.remove(list[1].events, i) end
    end
    local result = compare(list, { cluster = "dgx_h100" })
    assert.near(6e-6, row_of(result, "linear_up", "forward").measured_seconds, 1e-12) -- a host row lasts 6 us
    assert.same({}, result.collectives)
    assert.is_nil(result.split)
  end)

  it("keeps the lookups of words and of positions apart", function()
    local list = recordings(1, function(name) return name == "positions" and 1.5 or 1 end, { max_positions = 2048 })
    local result, what = compare(list, { cluster = "dgx_h100" })
    assert.equal(2048, what.model.hyper.max_positions)
    local words, positions
    for _, row in ipairs(result.operators) do
      if row.name == "embedding" and row.pass == "forward" then words, positions = positions or row, row end
    end
    assert.equal(1, words.count)
    assert.near(75e-6, positions.measured_seconds, 1e-9)
    assert.near(1, words.ratio, 1e-3)
  end)

  it("does not predict kernels that Triton wrote from another cluster's samples of others", function()
    local dgx = require("ett.profile.cluster").get "dgx_a100"
    local times = {}
    for _, each in ipairs(require("ett.loop.sources").of { cluster = dgx }) do times[each[1]] = each[2] end
    local function gelu(name)
      local seconds
      local list = recordings(1, nil, { type = "c10::Half", times_of = times.perlmutter:for_stack "plain",
        kernel = function(op, pass) return op == "gelu" and name or op .. "_" .. pass end })
      local result = compare(list, { cluster = "dgx_a100", plan = { stack = "plain" } })
      assert.equal("perlmutter", result.rate)
      seconds = row_of(result, "gelu", "forward").predicted_seconds
      return seconds
    end
    local shape = { tokens = size.batch * size.seq, width = 4 * size.hidden }
    local function said(source)
      return times[source]:for_stack("plain"):operator(require("ett.operator").get "gelu", shape, "fp16",
        "forward").seconds
    end
    assert.equal(said "perlmutter", gelu "gelu_kernel")
    assert.equal(said "burst", gelu "triton_poi_fused_gelu_0")
    assert.is_true(math.abs(said "burst" / said "perlmutter" - 1) > 0.02, said "burst" .. " " .. said "perlmutter")
  end)

  it("compares the stages of a pipeline", function()
    local list, seconds = recordings(1)
    list[2] = recordings(1, function(name) return name == "gelu" and 3 or 1 end)[1]
    list[2].rank, list[1].world, list[2].world = 1, 2, 2
    local result = compare(list, { cluster = "dgx_h100", plan = { pp = 2, dp = 1, stack = "plain" } })
    local first, second = table.unpack(result.stages)
    assert.same({ 1, 2, 2 }, { first.stage, second.stage, #result.stages })
    local sum = 0.0
    for _, row in ipairs(result.operators) do
      if row.predicted_seconds then sum = sum + row.total_seconds end
    end
    assert.near(sum, first.measured_seconds + second.measured_seconds, 1e-9)
    assert.near(2 * size.layers * (seconds.forward.gelu + seconds.backward.gelu),
      second.measured_seconds - first.measured_seconds, 1e-6)
    assert.equal(first.predicted_seconds, second.predicted_seconds)
    assert.equal(first.predicted_seconds / first.measured_seconds, first.ratio)
  end)

  it("prints stages and operators without a ratio: none matched, or kernels of no length", function()
    local list = recordings(1)
    list[2] = maker.new { rank = 1, world = 2 }
    list[2]:kernel("gemm", 100, 10, { launch = { ts = 90, dur = 5 } })
    list[1].world = 2
    local given = { cluster = "dgx_h100", plan = { pp = 2, dp = 1, stack = "plain" } }
    local result, what = compare(list, given)
    assert.is_nil(result.stages[2].ratio)
    assert.matches("\n +2 +operators +0 +0 +0\n", table.concat(report.against(result, what), "\n"))
    for _, event in ipairs(list[1].events) do if event.cat == "kernel" then event.dur = 0 end end
    result, what = compare({ list[1] }, given)
    local row = row_of(result, "linear_up", "forward")
    assert.same({ nil, 0.0 }, { row.ratio, row.share })
    assert.matches("\nlinear_up +forward ", table.concat(report.against(result, what), "\n"))
  end)

  it("compares units of per-micro-batch timings by stage", function()
    local folder = maker.folder()
    for rank = 0, 1 do
      local file = assert(io.open(("%s/pp_rank_%d.json"):format(folder, rank), "w"))
      local function iteration(forward, backward)
        return { total = 100.0, fwd_start = { 0, 20 }, fwd_end = { forward, 20 + forward }, bwd_start = { 40, 70 },
          bwd_end = { 40 + backward, 70 + backward } }
      end
      file:write(require("ett.json").encode { ["1"] = iteration(19, 28), ["2"] = iteration(4 + rank, 12) })
      file:close()
    end
    local view <close> = open(folder)
    local what = subject.of(view, { model = "gpt", hyper = { layers = 4, hidden = 2048, heads = 16, vocab = 32768 },
      plan = { seq = 1024 }, cluster = "dgx_h100" })
    local result, lines = against.compare(view, what)
    local e = require("ett.step.estimate").new { model = what.model, plan = what.plan, cluster = what.cluster,
      units = true }
    local seen = {}
    for i, row in ipairs(result.stages) do
      seen[i] = ("%d %s %.3f"):format(row.stage, row.unit, row.measured_seconds)
      local sum, n = 0.0, 0
      for _, unit in ipairs(e.units[row.stage]) do
        if row.unit:upper():sub(1, 1) == unit[1]:sub(1, 1) then sum, n = sum + unit.seconds, n + 1 end
      end
      near({ predicted_seconds = sum / n, ratio = row.predicted_seconds / row.measured_seconds }, row)
    end
    assert.same({ "1 forward 0.004", "1 backward 0.012", "2 forward 0.005", "2 backward 0.012" }, seen)
    assert.matches("1 +backward +2 +12 ", table.concat(require("ett.loop.report").against(result, what), "\n"))
    local drawn = require("ett.loop.page").new(view, result, lines).data.timeline.groups[1].lanes
    assert.same({ "stage 0", "stage 0, predicted", "stage 1", "stage 1, predicted" },
      { drawn[1].name, drawn[2].name, drawn[3].name, drawn[4].name })
    maker.remove(folder)
  end)

  it("takes a public model, a changed one, or a config.json, and notes sizes that the trace contradicts", function()
    local path = os.tmpname() .. ".json"
    require("command").write(path:match "^(.*)/", path:match "[^/]+$", [[{ "model_type": "gpt2", "n_layer": 4,
      "n_embd": 2048, "n_head": 16, "vocab_size": 32768 }]])
    local function subject_of(view, name, hyper)
      return subject.of(view, { model = name, hyper = hyper, cluster = "dgx_h100", plan = { seq = 1024 } })
    end
    local list = recordings(2)
    list[1].document = function(r)
      local document = maker.document(r)
      document.deviceProperties = { { id = 0, name = "NVIDIA A100-SXM4-80GB" } }
      return document
    end
    local view <close> = view_of(list)
    local what = subject_of(view, "gpt2")
    assert.equal("the trace was recorded on 'NVIDIAA100-SXM4-80GB', dgx_h100 has 'H100-SXM-80GB'",
      table.remove(what.notes))
    assert.same({ "gpt2", 12, 768 }, { what.model.name, what.model.hyper.layers, what.model.hyper.hidden })
    local notes = table.concat(what.notes, "\n")
    assert.matches("gpt2 has hidden=768, but the trace shows 2048 (certain: ", notes, 1, true)
    local sizes = { layers = 4, hidden = 2048, heads = 16, vocab = 32768 }
    assert.equal(1, #subject_of(view, "gpt2", sizes).notes)
    assert.equal(1, #subject_of(view, path).notes)
    local changed = subject_of(view, path, { layers = 3 })
    assert.same({ 3, "given" }, { changed.model.hyper.layers, changed.used.layers })
    assert.has_error(function() subject_of(view, "gpt22") end)
    os.remove(path)
  end)

  it("names inputs that the trace lacks", function()
    local r = maker.new { rank = 0 }
    r:kernel("k", 100, 10)
    local view <close> = view_of({ r })
    local why = raised(subject.of, view, { cluster = "dgx_h100" })
    assert.matches("does not show the model's layers=, hidden=, heads=, vocab=", why)
  end)
end)

describe("ett.loop.layout", function()
  local function read(list, fn)
    local view <close> = view_of(list)
    fn(layout.read(view))
  end

  it("reads the plan of random models, and is certain of nothing wrong", function()
    math.randomseed(7)
    for _ = 1, 20 do
      local tp, dim = 1 << math.random(0, 2), 16 << math.random(0, 2)
      local heads = tp * math.random(1, 4) * 2
      local truth = { hidden = heads * dim, heads = heads, layers = math.random(2, 5), seq = 96 + 32 * math.random(0,
        3),
        batch = math.random(1, 3), vocab = 12288, tp = tp, micro_batches = math.random(1, 3) }
      truth.max_positions = math.random(2) == 1 and truth.seq * math.random(1, 4) or nil
      local gpt, list = trace_gpt.new(truth), {}
      for rank = 0, tp - 1 do list[rank + 1] = gpt:recording { rank = rank, world = tp } end
      read(list, function(found)
        local wanted = { hidden = truth.hidden, heads = heads, layers = truth.layers, seq = truth.seq, tp = tp,
          micro_batch = truth.batch, micro_batches = truth.micro_batches, dp = 1, pp = 1, head_dim = dim,
          ffn = 4 * truth.hidden, vocab = truth.vocab, dtype = "bf16", attention = "flash", recompute = "none",
          training = true, gated_mlp = false, norm = "layer_norm" }
        assert.equal(truth.max_positions, (found.max_positions or {}).value)
        for name, value in pairs(wanted) do
          assert.is_truthy(found[name], name)
          assert.equal(value, found[name].value, name .. ": " .. found[name].why)
        end
      end)
    end
  end)

  it("reads the degrees from Megatron-Core's groups: without those of experts, and with context parallelism", function()
    local truth = { tp = 2, cp = 2, pp = 2, dp = 8, ep = 8 } -- experts without tensor ranks: 4 copies of each
    local groups = { { "PIPELINE_MODEL_PARALLEL_GROUP", "send", 2 }, { "TENSOR_MODEL_PARALLEL_GROUP", "allreduce", 2 },
      { "CONTEXT_PARALLEL_GROUP", "allgather", 2 }, { "EXPERT_MODEL_PARALLEL_GROUP", "all_to_all", 8 },
      { "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "allgather", 8 } }
    for i = 6, 8 do groups[i] = { "EXPERT_DATA_PARALLEL_GROUP", "allreduce", 4 } end
    local function trace(data, ranks)
      return add_groups(maker.new { rank = 0, world = 64 }, { { data, "allreduce", ranks }, table.unpack(groups) })
    end
    for data, ranks in pairs { DATA_PARALLEL_GROUP = 8, DATA_PARALLEL_GROUP_WITH_CP = 16 } do
      read({ trace(data, ranks) }, function(found)
        for name, value in pairs(truth) do
          assert.is_truthy(found[name], name)
          assert.equal(value, found[name].value, ("%s of %s: %s"):format(name, data, found[name].why))
        end
      end)
    end
  end)

  it("reads no pipeline from groups that need more ranks than the run had", function()
    local r = add_groups(maker.new { rank = 0, world = 4 }, { { "DATA_PARALLEL_GROUP", "allreduce", 4 },
      { "TENSOR_MODEL_PARALLEL_GROUP", "allreduce", 2 }, { "PIPELINE_MODEL_PARALLEL_GROUP", "send", 2 } })
    read({ r }, function(found)
      assert.same({ 4, 2 }, { found.dp.value, found.tp.value })
      assert.is_nil(found.pp)
    end)
  end)

  it("takes the fields that the trace does not show from the workload card", function()
    local function with_card(list, card, fn)
      maker.with(list, function(folder)
        require("ett.base.folder").write(folder .. "/workload_card.yaml", card)
        local view <close> = open(folder)
        fn(layout.read(view), view)
      end)
    end
    local function shown(each) return { each.value, each.sure } end
    local r = maker.new { rank = 0, world = 16 }
    r:kernel("gemm", 0, 50)
    add_groups(r, { { "TENSOR_MODEL_PARALLEL_GROUP", "allreduce", 4 } })
    with_card({ r }, "plan: { tp: 4, pp: 1, dp: 2, ep: 8, cp: 0 }\nseq_len: 4096\nprecision: BF16\nbatch_size: 64\n",
      function(found)
        assert.same({ { 4, "certain" }, { 1, "certain" }, { 2, "likely" }, { 8, "likely" }, { 1, "likely" },
          { 4096, "likely" }, { "bf16", "likely" } }, { shown(found.tp), shown(found.pp), shown(found.dp),
          shown(found.ep), shown(found.cp), shown(found.seq), shown(found.dtype) })
        assert.equal("tensor-parallel groups, and the workload card", found.tp.why)
        assert.matches("^the workload card .*workload_card.yaml; the trace shows 4 %(ranks left over", found.dp.why)
        assert.same({}, { found.global_batch, found.tp.of_card, found.dp.differs })
      end)
    -- A certain field of the trace stays.
    local truth = { hidden = 256, heads = 4, layers = 3, seq = 96, batch = 2, vocab = 1024, micro_batches = 2 }
    with_card({ trace_gpt.new(truth):recording { rank = 0, world = 1 } }, "seq_len: 128\npp: 1\n",
      function(found, view)
        assert.same({ 96, "certain" }, shown(found.seq))
        assert.matches("; the workload card has 128$", found.seq.why)
        assert.same({ 1, "certain" }, shown(found.pp))
        local of = subject.of(view, { cluster = "dgx_a100" })
        assert.same({ 96, 1 }, { of.plan.seq, of.plan.pp })
      end)
    assert.error_matches(function() with_card({ r }, "tp: many\n", function() end) end,
      "workload_card.yaml: line 1: field 'tp' must be a non%-negative integer, got 'many'")
  end)

  it("sees training without shapes, and the processes of a run on the host", function()
    local function ranks(backward)
      local list = {}
      for rank = 0, 1 do
        list[rank + 1] = maker.new { rank = rank }
        list[rank + 1]:host("cpu_op", "aten::linear", 0, 50)
        list[rank + 1].document = function(r) return { traceEvents = require("ett.json").array(r.events) } end
        if backward then
          list[rank + 1]:host("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 100, 50)
        end
      end
      return list
    end
    read(ranks(true), function(found)
      assert.same({ value = true, sure = "certain", why = "it has a backward pass" }, found.training)
      assert.same({ value = 2, sure = "guess", why = "2 processes were recorded" }, found.dp)
    end)
    read(ranks(false), function(found)
      assert.same({ false, "likely" }, { found.training.value, found.training.sure })
    end)
  end)

  it("distinguishes the head from an MLP of the same width", function()
    local truth = { hidden = 256, heads = 4, layers = 3, seq = 96, batch = 2, vocab = 1024, micro_batches = 2 }
    read({ trace_gpt.new(truth):recording { rank = 0, world = 1 } }, function(found)
      for name, value in pairs { vocab = 1024, ffn = 1024, layers = 3, micro_batches = 2 } do
        assert.is_truthy(found[name], name)
        assert.equal(value, found[name].value, name)
      end
    end)
  end)

  it("reads schedules by hand", function()
    local function units(text)
      local list = {}
      for word in text:gmatch("%a+") do list[#list + 1] = { #list, word } end
      return list
    end
    assert.equal("1f1b", layout.schedule_of(units "fwd fwd bwd fwd bwd fwd bwd bwd", 2, 0))
    assert.equal("gpipe", layout.schedule_of(units "fwd fwd fwd fwd bwd bwd bwd bwd", 2, 0))
    assert.equal("1f1b", layout.schedule_of(units "fwd bwd fwd bwd", 2, 1))
    assert.equal("interleaved", layout.schedule_of(units "fwd fwd fwd bwd fwd bwd fwd bwd bwd bwd", 2, 0))
    assert.is_nil(layout.schedule_of(units "fwd fwd", 2, 0))
  end)
end)

describe("ett.loop.match", function()
  local expected, kinds, match = require "ett.loop.expected", require "ett.trace.operators.kinds",
    require "ett.loop.match"

  it("lists the recorded moves of tokens to experts and back by themselves, apart from the router", function()
    local model = require("ett.model").new("mixtral", { layers = 2, hidden = 512, heads = 8, vocab = 1000, ffn = 1024,
      experts = 8, top_k = 2 })
    local plan = require("ett.plan").new({ seq = 256, micro_batch = 1, micro_batches = 1 }, model)
    local function operation(name, dims) return kinds.of(name, dims, '["c10::BFloat16"]') end
    local router = operation("aten::linear", "[[256,512],[8,512]]") -- not among the model's products
    local runs = {}
    local function ran(pass, ticks)
      return function(name, o)
        runs[#runs + 1] = { node = true, pass = pass, operation = o, ticks = ticks, kernels = {}, name = name }
      end
    end
    local permute = operation("_moe_permute_mask_map", "[[256,512],[256,8],[],[256,8]]")
    local back = operation("_moe_unpermute_mask_map", "[[512,512],[256,17],[256,8],[]]")
    for _ = 1, 2 do
      local forward = ran("forward", 10)
      forward("linear", router)
      forward("permute", permute)
      forward("unpermute", back)
    end
    for _ = 1, 2 do
      local backward = ran("backward", 30)
      backward("unpermute", back)
      backward("permute", permute)
    end
    local devices = { { runs = runs } }
    local present, found = match.present(devices), {}
    for _, line in ipairs((match.lines(devices, expected.sequence(model, plan, present), present))) do
      found[line.name .. " " .. line.pass] = { line.count, line.ticks }
    end
    assert.same({ 2, 20 }, found["moe_permute forward"])
    assert.same({ 2, 60 }, found["moe_permute backward"])
    assert.same({ 2, 20 }, found["moe_unpermute forward"])
    assert.same({ 2, 60 }, found["moe_unpermute backward"])
  end)
end)

describe("an operator that joins another", function()
  local match = require "ett.loop.match"
  local function entry(name, key, joins)
    return { name = name, key = key, operator = { family = key and "gemm" or "elementwise", joins = joins } }
  end
  local function product(n) return { family = "gemm", batch = 1, m = 8, n = n, k = 8 } end
  local meet = require("ett.loop.expected").meet

  it("is timed with it, in the backward pass before it", function()
    local qkv, proj = product(3), product(1)
    local sequence = { entry("linear_qkv", meet(qkv)), entry("copies", nil, "linear_qkv"),
      entry("linear_proj", meet(proj)) }
    local function run(pass, operation, ticks)
      return { node = true, pass = pass, operation = operation, ticks = ticks, kernels = {}, name = "host" }
    end
    local runs = {}
    for _ = 1, 2 do
      for _, each in ipairs { { qkv, 100 }, { nil, 7 }, { proj, 40 } } do
        runs[#runs + 1] = run("forward", each[1], each[2])
      end
    end
    for _ = 1, 2 do
      for _, each in ipairs { { proj, 80 }, { nil, 9 }, { qkv, 200 } } do
        runs[#runs + 1] = run("backward", each[1], each[2])
      end
    end
    local found = {}
    for _, line in ipairs((match.lines({ { runs = runs } }, sequence, match.present { { runs = runs } }))) do
      found[line.name .. " " .. line.pass] = { line.count, line.ticks, line.list, #(line.entries or {}) }
    end
    assert.same({
      ["copies + linear_qkv forward"] = { 2, 214, { 107, 107 }, 2 },
      ["linear_proj forward"] = { 2, 80, { 40, 40 }, 1 },
      ["copies + linear_qkv backward"] = { 2, 418, { 209, 209 }, 2 },
      ["linear_proj backward"] = { 2, 160, { 80, 80 }, 1 },
    }, found)
  end)
end)

describe("a residual addition inside the kernel of a norm", function()
  it("is timed with the norm; the first norm of a model is a plain one", function()
    local expected, match = require "ett.loop.expected", require "ett.loop.match"
    local kinds = require "ett.trace.operators.kinds"
    local model = require("ett.model").new("llama", { layers = 2, hidden = 64, heads = 4, ffn = 96, vocab = 512 })
    local plan = require("ett.plan").new({ seq = 32, micro_batch = 1, micro_batches = 1 }, model)
    local types = '["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"]'
    local runs = {}
    local function run(name, dims, ticks)
      runs[#runs + 1] = { node = true, pass = "forward", operation = kinds.of(name, dims, types), ticks = ticks,
        kernels = {}, name = name }
    end
    run("_C::rms_norm", "[[32,64],[32,64],[64]]", 3)
    for layer = 1, 2 do
      run("aten::linear", "[[32,64],[192,64]]", 10)
      run("aten::scaled_dot_product_attention", "[[1,4,32,16],[1,4,32,16],[1,4,32,16]]", 10)
      run("aten::linear", "[[32,64],[64,64]]", 10)
      run("_C::fused_add_rms_norm", "[[32,64],[32,64],[64]]", 7)
      run("aten::linear", "[[32,64],[192,64]]", 10)
      run("_C::silu_and_mul", "[[32,96],[32,192]]", 10)
      run("aten::linear", "[[32,96],[64,96]]", 10)
      run("_C::fused_add_rms_norm", "[[32,64],[32,64],[64]]", 7 + layer)
    end
    local present = match.present { { runs = runs } }
    local found = {}
    for _, line in ipairs((match.lines({ { runs = runs } }, expected.sequence(model, plan, present), present))) do
      if line.name:find "norm" then found[line.name] = { line.list, #(line.entries or {}) } end
    end
    assert.same({ rms_norm = { { 3 }, 1 }, ["residual_add + rms_norm"] = { { 7, 8, 7, 9 }, 2 } }, found)
  end)

  it("is one that its file declares, whatever it reads from memory", function()
    local architecture, find = require "ett.model.architecture", require "ett.base.find"
    local expected, kinds = require "ett.loop.expected", require "ett.trace.operators.kinds"
    local present = { [kinds.key { family = "norm", what = "add_rms_norm", rows = 32, cols = 64 }] = true }
    local function names(op)
      local model = architecture.new(function(h)
        return { layers = { { name = "block", count = h.layers, ops = { op, "rms_norm" } } } }
      end, { layers = 1, hidden = 64, heads = 4, vocab = 512, ffn = 96 })
      local plan, list = require("ett.plan").new({ seq = 32, micro_batch = 1, micro_batches = 1 }, model), {}
      for i, entry in ipairs(expected.sequence(model, plan, present)) do
        list[i] = (entry.beside and entry.beside.name .. " + " or "") .. entry.name
      end
      return table.concat(list, ", ")
    end
    assert.equal("residual_add + rms_norm", names "residual_add")
    assert.equal("bias_dropout_add + rms_norm", names "bias_dropout_add") -- inference drops nothing
    require("ett.base.folder").within(function(folder)
      require("ett.base.folder").write(folder .. "/stream.lua", [[
local op = {}
for key, value in pairs(require("ett.operator").get "residual_add") do op[key] = value end
op.name, op.residual = "stream", nil
return op]])
      find.set_script_folder(folder)
      local found = names "stream"
      find.set_script_folder(nil)
      require("ett.operator").forget()
      assert.equal("stream, rms_norm", found)
    end)
  end)

  it("has the norm of the model", function()
    local r = maker.new { rank = 0 }
    r:host("cpu_op", "_C::fused_add_rms_norm", 100, 10, { args = { ["Input Dims"] = "[[32,64],[32,64],[64]]" } })
    r:kernel("norm", 120, 3, { launch = { ts = 102, dur = 2 } })
    local view <close> = view_of({ r })
    assert.equal("rms_norm", layout.read(view).norm.value)
  end)
end)

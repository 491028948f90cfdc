--- Recorded runs compared with the model: plans read from traces, comparison, samples from a trace, replay.
local median = require "ett.base.median"

local bench = { summary = "the loop between traces and model, on the shared traces" }

--- What is known of the shared traces' plans: from their READMEs, file names, models and configurations.
local known = {
  megatron_tp8_a100 = { tp = 8, pp = 1, dp = 1, hidden = 4096, heads = 64, layers = 40, seq = 2048, micro_batch = 4,
    micro_batches = 1, dtype = "fp16", ffn = 16384, attention = "fused_softmax", sequence_parallel = false,
    training = false, gated_mlp = false, norm = "layer_norm" },
  ["tracelens/h100__Qwen_Qwen1.5-0.5B-Chat__1016005"] = { tp = 1, pp = 1, dp = 1, hidden = 1024, heads = 16,
    kv_heads = 16, layers = 24, ffn = 2816, vocab = 151936, dtype = "bf16", seq = 559, micro_batch = 16,
    attention = "flash", gated_mlp = true, training = false, qkv_bias = true },
  ["tracelens/b200__eager_trace"] = { tp = 8, pp = 1, hidden = 2880, norm = "rms_norm", dtype = "bf16",
    training = false },
  ["primus_pp/pp8"] = { pp = 8, tp = 1, dp = 1, ep = 1, vp = 1, micro_batches = 16, schedule = "1f1b" },
  param_dlrm_kineto = { dp = 8, training = true, dtype = "fp32", recompute = "none", pp = 1 },
  torchrec_sst_long_a2a_optimizer_2_run1 = { dp = 4, pp = 1, training = true },
  hta_nccl_parser_config = { dp = 2, pp = 1, tp = 1, training = true },
  ["tracelens/mi300__ddp_resnet18_no_pool__train_resnet18"] = { training = true, dtype = "bf16", recompute = "none",
    pp = 1 },
}

local function open(path)
  return assert(require("ett.trace.view").open(path, { args = require("ett.loop.against").args }))
end

local function plans(root, rows)
  local right, count, wrong, silent = 0, 0, 0, {}
  for name, truth in pairs(known) do
    local view <close> = open(root .. "/" .. name)
    local found = require("ett.loop.layout").read(view)
    for field, value in pairs(truth) do
      count = count + 1
      local each = found[field]
      if each and each.value == value then right = right + 1 end
      if each and each.value ~= value then
        wrong = wrong + 1
        if each.sure == "certain" then silent[#silent + 1] = ("%s: %s is %s, not %s"):format(name, field,
          tostring(value), tostring(each.value)) end
      end
      if not (each and each.value == value) then
        rows[#rows + 1] = { measure = ("  %s: %s = %s read as %s"):format(name, field, tostring(value),
          each and tostring(each.value) .. ", " .. each.sure or "nothing"), value = "" }
      end
    end
  end
  rows[#rows + 1] = { measure = "fields of known plans read right, %", value = ("%.1f (%d of %d)"):format(
    100 * right / count, right, count), target = ">= 95", pass = right / count >= 0.95 }
  rows[#rows + 1] = { measure = "fields read wrong without a warning", value = #silent, target = "0",
    pass = #silent == 0 }
end

local function comparison(root, rows)
  local view <close> = open(root .. "/megatron_tp8_a100")
  local subject = require("ett.loop.subject").of(view, {})
  local result = require("ett.loop.against").compare(view, subject)
  local near, count = 0, 0
  local function judge(row, name)
    count = count + 1
    if math.abs(row.ratio - 1) <= 0.1 then
      near = near + 1
      return
    end
    rows[#rows + 1] = { measure = ("  %s: measured %.1f us, predicted off by"):format(name,
      1e6 * (row.transfer_seconds or row.measured_seconds)), value = ("%+.1f %%"):format(100 * (row.ratio - 1)) }
  end
  for _, row in ipairs(result.operators) do
    if row.ratio and row.share >= 0.005 then judge(row, row.name) end
  end
  for _, row in ipairs(result.collectives) do
    if row.ratio and row.bytes > 1e6 then judge(row, row.name) end
  end
  rows[#rows + 1] = { measure = ("megatron_tp8: operators and collectives within 10 %%, stack %s, %s"):format(
    result.stack, result.rate), value = ("%d of %d"):format(near, count), target = ">= 9 of 10",
    pass = near >= 0.9 * count }
end

--- All halves of some ranks: lists of which rank is in the first half.
local function halves(ranks)
  local list, chosen = {}, {}
  local function choose(i, left)
    if left == 0 then list[#list + 1] = table.move(chosen, 1, #ranks, 1, {})
    elseif i <= #ranks then
      for _, inside in ipairs { true, false } do
        chosen[i] = inside
        choose(i + 1, inside and left - 1 or left)
      end
      chosen[i] = nil
    end
  end
  choose(1, #ranks // 2)
  return list
end

--- The runs of an operator on some ranks (every rank of `ranks` with inside[i] == wanted) in one list.
local function pooled(by_rank, ranks, inside, wanted)
  local all = {}
  for i, rank in ipairs(ranks) do
    if (inside[i] or false) == wanted then
      table.move(by_rank[rank] or {}, 1, #(by_rank[rank] or {}), #all + 1, all)
    end
  end
  return all
end

--- Median errors of the halves of the ranks: a row of the one half predicts the row of the other, or each rank of it.
local function all_halves(by_operator, ranks)
  local middle = require("ett.loop.tables").middle
  local rows, single, held = {}, {}, 0
  for _, inside in ipairs(halves(ranks)) do
    local of_rows, of_ranks = {}, {}
    for _, by_rank in pairs(by_operator) do
      local predicted = middle(pooled(by_rank, ranks, inside, true))
      of_rows[#of_rows + 1] = math.abs(predicted / middle(pooled(by_rank, ranks, inside, false)) - 1)
      for i, rank in ipairs(ranks) do
        if not inside[i] then of_ranks[#of_ranks + 1] = math.abs(predicted / middle(by_rank[rank]) - 1) end
      end
    end
    rows[#rows + 1], single[#single + 1] = 100 * median(of_rows), 100 * median(of_ranks)
    if rows[#rows] <= 3 then held = held + 1 end
  end
  return median(rows), median(single), held, #rows
end

--- How well all other ranks predict a rank: what no half of the ranks can be expected to reach.
local function left_out(by_operator, ranks)
  local middle, errors = require("ett.loop.tables").middle, {}
  for _, by_rank in pairs(by_operator) do
    for i, rank in ipairs(ranks) do
      local others = pooled(by_rank, ranks, { [i] = true }, false)
      errors[#errors + 1] = math.abs(middle(others) / middle(by_rank[rank]) - 1)
    end
  end
  return 100 * median(errors)
end

--- Profiles from the samples of the even and of the odd ranks of a trace: [0] and [1].
local function profiles_of(path, folder)
  local tables, profiles = require "ett.loop.tables", {}
  for parity = 0, 1 do
    local into = tables.new()
    tables.gather(into, path, { ranks = function(rank) return rank % 2 == parity end })
    tables.write(into, folder .. "/" .. parity)
    profiles[parity] = require("ett.profile").from_samples({ folder .. "/" .. parity }, { cache = false })
  end
  return profiles
end

--- Operators that both profiles predict, [key] = { [rank] = seconds of runs }; answers, [key] = { [parity] = seconds },
--- of both profiles; the ranks.
local function runs_of(path, profiles)
  local roofline, operators = require "ett.trace.operators.roofline", require "ett.trace.operators"
  local view <close> = open(path)
  local by_operator, answers, ranks = {}, {}, {}
  for i, device in ipairs(operators.of_view(view)) do
    ranks[i] = device.rank
    for _, row in ipairs(operators.by_shape(device.runs)) do
      local op, shape = roofline.operator(row.operation)
      local function seconds(parity)
        local answer = profiles[parity]:operator(op.name, shape, row.dtype, row.pass)
        return answer and answer.seconds
      end
      if op and row.dtype and row.pass ~= "recompute" and seconds(0) and seconds(1) then
        local key = ("%s %s %s"):format(op.name, row.shape, row.pass)
        answers[key] = { [0] = seconds(0), seconds(1) }
        by_operator[key] = by_operator[key] or {}
        local runs = {}
        for k, ticks in ipairs(row.list) do runs[k] = view:s(ticks) end
        by_operator[key][device.rank] = runs
      end
    end
  end
  return by_operator, answers, ranks
end

--- Samples of half of the ranks predict the operators of the other half. An operator's time is what a table's row says
--- of its runs. Even ranks predict odd ones, and odd even ones, by sample tables and a profile; all halves by rows.
local function half(root, rows)
  local folders, middle = require "ett.base.folder", require("ett.loop.tables").middle
  local function row(measure, value, judged)
    rows[#rows + 1] = { measure = measure, value = ("%.2f"):format(value), target = judged and "<= 3",
      pass = judged and value <= 3 or nil }
  end
  for _, name in ipairs { "megatron_tp8_a100", "param_dlrm_kineto" } do
    folders.within(function(folder)
      local path = root .. "/" .. name
      local by_operator, answers, ranks = runs_of(path, profiles_of(path, folder))
      for parity = 0, 1 do
        local errors, others = {}, {}
        for i, rank in ipairs(ranks) do others[i] = rank % 2 ~= parity end
        for key, by_rank in pairs(by_operator) do
          errors[#errors + 1] = math.abs(answers[key][parity] / middle(pooled(by_rank, ranks, others, true)) - 1)
        end
        local value = 100 * median(errors)
        row(("%s: %s ranks predict %d operators of the others, median %%"):format(name, parity == 0 and "even" or "odd",
          #errors), value, true)
      end
      local of_rows, single, held, count = all_halves(by_operator, ranks)
      row(("  all %d halves of the ranks, median %% (3 or less in %d)"):format(count, held), of_rows, true)
      row("  the same, each operator of each rank alone, %", single)
      row("  each rank predicted by all others, %: the ranks' own scatter", left_out(by_operator, ranks))
    end)
  end
end

--- Every shared trace of several ranks, replayed without a change.
local function replays(root, rows)
  local replay, worst, count = require "ett.trace.replay", 0.0, 0
  for _, name in ipairs { "megatron_tp8_a100", "param_dlrm_kineto", "torchrec_resnet18", "hta_trace_filter",
    "torchrec_sst_long_a2a_optimizer", "torchrec_sst_long_a2a_optimizer_2_run1" } do
    local view <close> = open(root .. "/" .. name)
    local g = replay.graph(view)
    local recorded, again = replay.recorded(g), replay.run(g)
    for key, ticks in pairs(recorded) do worst = math.max(worst, math.abs(again.spans[key] / ticks - 1)) end
    count = count + 1
  end
  rows[#rows + 1] = { measure = ("replay without a change against the recorded spans, %%, %d traces"):format(count),
    value = ("%.3f"):format(100 * worst), target = "<= 1", pass = worst <= 0.01 }
end

function bench.run()
  local root, rows = require("reference_traces").folder(), {}
  if not root then return { { measure = "the shared traces", value = "not at hand (ETT_REFERENCE)" } } end
  plans(root, rows)
  comparison(root, rows)
  half(root, rows)
  replays(root, rows)
  return rows
end

return bench

--- Recorded runs beside the model: plans read off, comparison, samples from a trace, replay.
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
  torchrec_sst_long_a2a_optimizer_2_run1 = { dp = 4, pp = 1 },
  hta_nccl_parser_config = { dp = 2, pp = 1, tp = 1 },
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

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

--- How well the medians of all other ranks predict a rank: what no half of the ranks can be expected to reach.
local function scatter(by_operator)
  local errors = {}
  for _, list in pairs(by_operator) do
    for i, value in ipairs(list) do
      local others = table.move(list, i + 1, #list, i, table.move(list, 1, i - 1, 1, {}))
      if #others > 0 then
        table.sort(others)
        local middle = (others[(#others + 1) // 2] + others[#others // 2 + 1]) / 2
        errors[#errors + 1] = math.abs(middle / value - 1)
      end
    end
  end
  return #errors > 0 and 100 * median(errors)
end

--- Samples of the even ranks predict the operators of the odd ones.
local function half(root, rows)
  local folders = require "ett.base.folder"
  local tables, roofline = require "ett.loop.tables", require "ett.trace.operators.roofline"
  local operators = require "ett.trace.operators"
  for _, name in ipairs { "megatron_tp8_a100", "param_dlrm_kineto" } do
    folders.within(function(folder)
      local into = tables.new()
      tables.gather(into, root .. "/" .. name, { ranks = function(rank) return rank % 2 == 0 end })
      tables.write(into, folder)
      local profile = require("ett.profile").from_samples({ folder }, { cache = false })
      local view <close> = open(root .. "/" .. name)
      local errors, by_operator = {}, {}
      for _, device in ipairs(operators.of_view(view)) do
        for _, row in ipairs(operators.by_shape(device.runs)) do
          local op, shape = roofline.operator(row.operation)
          local answer = op and row.dtype and row.pass ~= "recompute"
            and profile:operator(op.name, shape, row.dtype, row.pass)
          if answer then
            local seconds, key = view:s(row.ticks / row.count), row.shape .. row.pass
            if device.rank % 2 == 1 then errors[#errors + 1] = math.abs(answer.seconds / seconds - 1) end
            by_operator[key] = by_operator[key] or {}
            table.insert(by_operator[key], seconds)
          end
        end
      end
      local value = #errors > 0 and 100 * median(errors)
      rows[#rows + 1] = { measure = ("%s: half of the ranks predict the other half, median %%, %d operators"):format(
        name, #errors), value = value and ("%.2f"):format(value) or "none", target = "<= 3",
        pass = value and value <= 3 or false }
      rows[#rows + 1] = { measure = "  each rank predicted by the median of all others: the ranks' own scatter, %",
        value = ("%.2f"):format(scatter(by_operator)) }
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
  local reference = os.getenv "ETT_REFERENCE"
  if not reference then return { { measure = "the shared traces", value = "not at hand (ETT_REFERENCE)" } } end
  local root, rows = reference .. "/traces", {}
  plans(root, rows)
  comparison(root, rows)
  half(root, rows)
  replays(root, rows)
  return rows
end

return bench

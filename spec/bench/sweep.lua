--- Plans evaluated per second in one process; checks that their totals equal those of single predictions.
local median = require "ett.base.median"

local bench = { summary = "a sweep over pp, tp, dp and micro-batch of the bundled example" }

local over = { pp = { 1, 2, 4, 8, 16, 32 }, tp = { 1, 2, 4, 8 }, dp = { 1, 2, 4, 8, 16, 32, 64 },
  micro_batch = { 1, 2, 4, 8 } }
local base = { seq = 4096, global_batch = 512, dtype = "fp16", gradient_dtype = "fp16", zero = 1, recompute = "full" }

local function copy(t)
  local c = {}
  for k, v in pairs(t) do c[k] = type(v) == "table" and copy(v) or v end
  return c
end

function bench.run()
  local ett = require "ett"
  local model = ett.model.list({ "rms_norm", "linear_qkv", "rope", "flash_attention", "linear_proj", "residual_add",
    "rms_norm", "linear_up", "gelu", "linear_down", "residual_add" },
    { layers = 32, hidden = 4096, heads = 32, ffn = 16384, vocab = 50257 })
  local cluster = ett.cluster.get "perlmutter"

  -- Everything a sweep does: opening the profile, lowering, timing, evaluating, sorting. A shared machine's speed
  -- changes within seconds; 300 sweeps take some of them.
  local sweep_seconds, sweep = {}, nil
  for i = 1, 300 do
    local start = os.clock()
    sweep = ett.sweep { model = model, cluster = cluster, plan = copy(base), over = copy(over) }
    sweep_seconds[i] = os.clock() - start
  end
  table.sort(sweep_seconds)
  -- More plans of the same programs: what a search that has warmed up sees.
  local wide, rest = copy(over), copy(base)
  rest.zero, rest.recompute = nil, nil
  wide.schedule, wide.zero = { "gpipe", "1f1b" }, { 0, 1 }
  wide.recompute = { "none", "selective", "full" }
  local start = os.clock()
  local many = ett.sweep { model = model, cluster = cluster, plan = rest, over = wide }
  local many_seconds = os.clock() - start

  local different, compared = 0, 0
  for i = 1, #sweep.rows, 13 do
    local row, plan = sweep.rows[i], copy(base)
    for name in pairs(over) do plan[name] = row[name] end
    local single = ett.estimate { model = model, cluster = cluster, plan = plan }
    compared = compared + 1
    if single.step_seconds ~= row.step_seconds or single.memory_bytes ~= row.memory_bytes then
      different = different + 1
    end
  end
  local function rate(count, seconds, name, least)
    local per_second = count / seconds
    return { measure = name, value = ("%.0f"):format(per_second), target = (">= %d"):format(least),
      pass = per_second >= least,
      configurations_per_second = per_second, configurations = count, cpu_seconds = seconds }
  end
  return {
    rate(sweep.evaluated, sweep_seconds[1],
      ("configurations per second per core, pp x tp x dp x micro-batch (%d plans)"):format(sweep.evaluated), 60000),
    { measure = "  the median of 300 sweeps",
      value = ("%.0f"):format(sweep.evaluated / median(sweep_seconds, true)), target = "-" },
    rate(many.evaluated, many_seconds, ("the same with schedule, recompute and ZeRO (%d plans)")
      :format(many.evaluated), 150000),
    { measure = ("totals that differ from single predictions, of %d compared"):format(compared),
      value = ("%d"):format(different), target = "0", pass = different == 0 },
  }
end

return bench

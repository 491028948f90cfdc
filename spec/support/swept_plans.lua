--- Sweeps random plans over two fields at a time, every field in turn, and compares each row with the single estimate
-- of its plan.
local random_plans = require "random_plans"
local rank_map = require "rank_map"

local swept_plans = {}

-- Values of fields other than booleans and choices.
local values = { seq = { 512, 1024, 2048 }, tp = { 1, 2, 4 }, cp = { 1, 2 }, ep = { 1, 2, 4 }, etp = { 1, 2 },
  micro_batch = { 1, 2, 4 }, micro_batches = { 1, 4, 8 }, global_batch = { 64, 128 }, dtype = { "bf16", "fp32" },
  gradient_dtype = { "fp32", "bf16" }, stack = { "megatron", "fsdp_eager", "plain" }, pp = { 1, 2, 4 },
  dp = { 1, 2, 4, 8 }, vp = { 1, 2 }, schedule = { "1f1b", "gpipe", "interleaved", "zb_h1" },
  optimizer_bytes = { 12, 8 }, bucket_bytes = { 2e7, 1e12 }, shard = { 1, 2, 4 }, prefetch = { 0, 1, 3 },
  expert_skew = { 0, 1 }, capacity_factor = { 0.8, 2 }, offload_activations = { 0, 0.5 }, offload_optimizer = { 0, 1 },
  offload_gradients = { 0, 0.6 }, offload_weights = { 0, 0.3 },
  jitter = { 0, 0.02 }, slow_share = { 0, 0.01 }, checkpoint_every_seconds = { 60, 600 },
  lora_rank = { 4, 64 }, lora_targets = { { "linear_qkv" }, { "linear_proj" } }, frozen_layers = { 0, 3, 8 } }

local function shuffled(pick, count)
  local left, map = {}, {}
  for i = 1, count do left[i] = i - 1 end
  while #left > 0 do
    local at = pick { 1, (#left + 1) // 2, #left }
    map[#map + 1] = table.remove(left, at)
  end
  return map
end

local function choices(field, p, pick)
  local name = field[1]
  if name == "rank_order" then return { rank_map.order(pick), "tp-cp-ep-dp-pp", rank_map.order(pick) } end
  if name == "rank_map" then
    local world = (p.tp or 1) * (p.cp or 1) * (p.dp or 1) * (p.pp or 1)
    return { shuffled(pick, world), shuffled(pick, world) }
  end
  return values[name] or field[2] == "boolean" and { true, false } or field.one_of
end

--- Sentences on rows that differ from single estimates, and the number of compared rows.
function swept_plans.compare(count, seed)
  local ett, fields = require "ett", require("ett.plan.fields").list
  local names, pick = require("ett.profile.cluster").names(), random_plans.generator(seed)
  local differ, tried, times = {}, 0, {}
  local models = { random_plans.llama(8), random_plans.mixture(8) }
  local plans = { random_plans.plans(count, seed, models[1]), random_plans.plans(count, seed + 1, models[2]) }
  for i = 1, count do
    local model, p, name = models[1 + i % 2], plans[1 + i % 2][i], names[1 + i % #names]
    local cluster = ett.cluster.get(name)
    times[name] = times[name] or require("ett.step.times").new(cluster)
    if not cluster.device.peak_flops[p.dtype] then p.dtype = "bf16" end
    local over = {}
    for _, field in ipairs { fields[1 + i % #fields], pick(fields) } do
      over[field[1]] = choices(field, p, pick)
      p[field[1]] = nil
      if field[1] == "global_batch" then p.micro_batches = nil end
    end
    if over.global_batch then over.micro_batches = nil end
    local ok, s = pcall(ett.sweep, { model = model, cluster = cluster, times = times[name],
      plan = random_plans.with(p, {}), over = over })
    for _, row in ipairs(ok and s.rows or {}) do
      local one, text = random_plans.with(p, {}), {}
      for _, swept in ipairs(s.fields) do
        one[swept], text[#text + 1] = row[swept], ("%s=%s"):format(swept, tostring(row[swept]))
      end
      local e = ett.estimate { model = model, cluster = cluster, plan = one }
      tried = tried + 1
      if e.step_seconds ~= row.step_seconds or e.memory_bytes ~= row.memory_bytes then
        differ[#differ + 1] = ("%s on %s: swept %.17g s, single %.17g s"):format(table.concat(text, " "), name,
          row.step_seconds, e.step_seconds)
      end
    end
  end
  return differ, tried
end

return swept_plans

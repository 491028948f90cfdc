-- Random small searches against brute force:
--   ett run spec/fuzz/searches.lua seed=1 seconds=600
-- A finding is printed with its seed; `seed=SEED count=1 show=true` repeats it and prints the case.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local ett = require "ett"
local clusters = require "ett.profile.cluster"
local keys = require("ett.base.schema").keys
local oracle = require "search_oracle"
local stacks = require "ett.operator.stack"
local with = require("random_plans").with

local o = ett.options { seed = { "count", default = 1 }, seconds = { "positive", default = 10 },
  count = { "count", default = 1 << 40 }, show = { "boolean", default = false } }

io.stdout:setvbuf "line"
local random = math.random
local function pick(list) return list[random(#list)] end
local function chance(n) return random(n) == 1 end

local function some(list)
  local kept = {}
  for _, value in ipairs(list) do if chance(2) then table.insert(kept, random(#kept + 1), value) end end
  return #kept > 0 and kept or { pick(list) }
end

local small = { layers = 6, hidden = 1024, heads = 8, ffn = 4096, vocab = 32000 }
local experts = { layers = 6, hidden = 2048, heads = 16, kv_heads = 8, ffn = 4096, vocab = 32000, experts = 8,
  top_k = 2 }
local models = { { "llama", with(small, { layers = 5, kv_heads = 2, tied_embeddings = true }) },
  { "llama", { layers = 8, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672, vocab = 128256 } },
  { "gpt", with(small, { hidden = 3072, heads = 24, ffn = 12288 }) }, { "mixtral", experts },
  { "mixtral", with(experts, { shared_experts = 1, first_dense_layers = 1 }) }, { "deepseek-v2-lite", { layers = 5 } },
  { "gpt-oss-20b", { layers = 6 } }, { "qwen3-next-80b-a3b", { layers = 4 } }, { "gemma3-1b", { layers = 7 } },
  { "t5-base", { layers = 4 } }, { "vit-l-16", { layers = 4 } }, { "mamba2-2.7b", { layers = 4 } },
  { "llama4-scout", { layers = 4 } } }
local bool = { false, true }

--- Every value of the fields of the space.
local function all_values(model, devices, batches)
  local all = oracle.divisors(devices)
  local v = { tp = all, cp = all, pp = all, micro_batch = oracle.divisors(table.unpack(batches)), vp = { 1, 2, 3, 4 },
    schedule = { "1f1b", "interleaved", "gpipe", "zb_v", "dualpipe" }, zero = { 0, 1, 2, 3 }, reshard = { true, false },
    recompute = { "none", "selective", "policy", "full" }, rank_order = { "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp" },
    sequence_parallel = bool, overlap_tensor = bool, overlap_parameters = bool, overlap_gradients = bool,
    overlap_sends = bool }
  if model.hyper.experts then
    v.ep, v.etp, v.overlap_all_to_all = oracle.divisors(model.hyper.experts), all, { "none", "shared_experts", "batch" }
  end
  return v
end

-- Fields that are left to the search now and then: it takes every value. And values that most plans need.
local free = { tp = 1, cp = 1, pp = 1, micro_batch = 1, ep = 1, recompute = 4, zero = 4, reshard = 2,
  overlap_parameters = 2, overlap_gradients = 2, overlap_sends = 2 }
local common = { tp = 1, pp = 1, cp = 1, micro_batch = 1, ep = 1, overlap_all_to_all = "none", schedule = "1f1b",
  vp = 1 }
local others = { seq = { 512, 2048 }, global_batch = { 16, 24, 40 }, dtype = { "bf16", "fp16", "fp8", "fp32" },
  stack = { "plain", "megatron", "fsdp_eager", "torchtitan" }, offload_activations = { 0, 0.5, 1 },
  offload_optimizer = { 0, 1 }, offload_gradients = { 0, 1 }, offload_weights = { 0, 0.5 }, shard = { 1, 2, 4 },
  prefetch = { 0, 2 }, scatter_sends = bool, cp_method = { "ring", "ulysses", "all_gather" },
  cp_balanced = bool, cp_ulysses = { 2 }, serial_sends = { true }, jitter = { 0.02 },
  bucket_bytes = { 2e7, 1e12 }, gradient_dtype = { "bf16", "fp32" }, fused_accumulation = bool, lora_rank = { 8 },
  gradient_all_reduce = bool, reduce_dtype = { "bf16", "fp32" }, clip_gradients = bool, post_validation = bool,
  frozen_layers = { 0, 2, 4 },
  optimizer_bytes = { 8, 12 }, interleave_group = { 4, 5, 8 }, failures_per_device_day = { 1e-4, 0.1 },
  price_per_device_hour = { 1, 3 }, recompute_modules = { { "mlp" } }, checkpoint_every_seconds = { 1, 20, 60, 600 },
  slow_share = { 0.01 }, pue = { 1.1, 2 } }
local for_experts = { expert_skew = { 0.5, 1 }, capacity_factor = { 0.8, 2 }, deduplicate_tokens = bool }
local conditions = { "tp <= 2 or zero > 1", "schedule == 'gpipe' or micro_batch > 1", "micro_batches >= 2 * pp",
  "dp * micro_batch < 9", "recompute ~= 'none' or pp > 1", "nodes < 3 and cp < 4", "not overlap_sends", "zero ~= 3",
  "sequence_parallel == (tp > 1)", "rank_order == 'tp-cp-ep-dp-pp' or pp == 2", "vp == 1 or micro_batch ~= 2",
  "recompute == 'full' or micro_batch > 1", "overlap_gradients or not overlap_parameters", "math.max(tp, cp) > 1" }
local objectives = { { "step_seconds" }, { "tokens_per_second" }, { "tokens_per_second_per_device" }, { "days" },
  { "memory_bytes" }, { "dollars" }, { "kwh" }, { "devices" }, { "seq" }, { "step_seconds", "memory_bytes" },
  { "days", "memory_bytes" }, { "step_seconds", "kwh" }, { "seq", "devices" }, { "memory_bytes", "seq" } }

--- Removes the values of free fields that no stack of a case has.
local function keep_stacks(c)
  local names = c.setting == "stack" and c.vary.stack or { c.plan.stack or c.cluster.stack or "plain" }
  local function some_stack_has(name, value)
    for _, stack in ipairs(names) do
      local s = stacks.get(stack)
      local has = value or not s[name] -- of an overlap
      if name == "zero" then has = s.zero_stages:find(value) end
      if name == "pp" then has = value == 1 or s.pipeline_schedules ~= "none" end
      if name == "reshard" then has = value or s.zero_stages:find "3$" and not s.zero_stages:find "2" end
      if has then return true end
    end
  end
  for _, name in ipairs { "zero", "reshard", "pp", "overlap_parameters", "overlap_gradients" } do
    local kept = {}
    for _, value in ipairs(c.lists[name]) do
      if c.vary[name] or some_stack_has(name, value) then kept[#kept + 1] = value end
    end
    c.lists[name] = kept
  end
end

--- A random search; c.lists holds the values of the fields of its space, c.setting another varied field.
local function new_case()
  local m, lists = pick(models), {}
  local c = { model = ett.model.new(m[1], m[2]), cluster = clusters.get(pick(clusters.names())), vary = {},
    devices = pick { 1, 2, 4, 6, 8, 8, 12, 16, 24, 64 }, keep = pick { 1, 3, 10, 100 }, tokens = pick { 1e9, 1e12 },
    plan = { seq = pick { 512, 1024, 4096 }, global_batch = pick { 8, 12, 36, 64 }, price_per_device_hour = 2 },
    headroom = pick { 0, 0, 0.2, 0.9 }, where = chance(2) and pick(conditions) or nil, objective = pick(objectives) }
  for _ = 1, random(0, 3) do
    local from = c.model.hyper.experts and chance(3) and for_experts or others
    local name = pick(keys(from))
    if chance(3) and not c.setting then
      c.vary[name], c.setting, c.plan[name] = some(from[name]), name, nil
    elseif c.setting ~= name then
      c.plan[name] = pick(from[name])
    end
  end
  if chance(3) and c.setting ~= "stack" then
    c.plan.stack = pick { "fsdp_eager", "transformers", "torchtitan", "megatron" }
  end
  local all = all_values(c.model, c.devices, c.vary.global_batch or { c.plan.global_batch })
  local product = #oracle.divisors(c.devices)
  local order = {}
  for _, name in ipairs(keys(all)) do table.insert(order, random(#order + 1), name) end
  for _, name in ipairs(order) do
    lists[name] = all[name]
    if not free[name] or product * #all[name] > 500 or chance(2) then
      c.vary[name] = product < 500 and some(all[name]) or { pick(all[name]) }
      local most, only = common[name], c.vary[name]
      if most and not only[2] and only[1] ~= most then table.insert(only, random(2), most) end
      lists[name] = c.vary[name]
    end
    product = product * #lists[name]
  end
  c.lists = lists
  keep_stacks(c)
  return c
end

local function near(a, b) return a == b or math.abs(a - b) <= 1e-9 * math.abs(a) end

--- Compares the rows of a search with those without bounds, single estimates and brute force. Brute force is left out
--- where a longer step may have fewer days, because a search takes the shortest step (lua/ett/search/README.md).
local function compare(c, s, all, rows)
  local wanted, effort = oracle.grows_with_steps(c, rows) and oracle.best(c, rows) or nil, s.effort
  assert(s.plans == effort.plans + s.ruled_out.rule + s.ruled_out.where and s.plans == all.plans, "layouts")
  assert(effort.plans == effort.forbidden + effort.too_large + effort.bounded + effort.evaluated + effort.refused,
    "effort")
  assert(#s.rows == #all.rows and #s.rows == (wanted and #wanted or #s.rows),
    ("%d rows, without bounds %d, brute force %d"):format(#s.rows, #all.rows, wanted and #wanted or #s.rows))
  for i, row in ipairs(s.rows) do
    for name, value in pairs(row) do
      assert(name == "best_percent" or all.rows[i][name] == value, ("row %d: %s without bounds"):format(i, name))
    end
    local e = oracle.estimate(c, row)
    assert(e.step_seconds == row.step_seconds and e.memory_bytes == row.memory_bytes and e.fits
      and e.devices == c.devices, ("row %d: digits of its estimate"):format(i))
    for name, value in pairs { run_days = e.run_days, run_dollars = e.run_dollars, goodput_percent = e.goodput_percent,
      run_kwh = row.run_kwh and e.run_kwh, tokens_per_second = e.tokens_per_second } do
      assert(not value or near(value, row[name]), ("row %d: %s of its estimate"):format(i, name))
    end
    for k, name in ipairs(wanted and c.objective or {}) do
      assert(near(oracle.value(c, row, name), wanted[i][k]), ("row %d: %s by brute force"):format(i, name))
    end
    assert(not wanted or near(row.step_seconds, wanted[i][#c.objective + 1]), ("row %d: step by brute force"):format(i))
  end
end

--- The number of plans by brute force.
local function check(c)
  c.times = require("ett.step.times").new(c.cluster)
  if o.show then
    print(ett.json.encode { model = c.model.name, cluster = c.cluster.name, devices = c.devices, plan = c.plan,
      vary = c.vary, where = c.where, objective = c.objective, keep = c.keep, headroom = c.headroom })
  end
  local ok, rows = pcall(oracle.rows, c)
  local given = with(c, { setting = false, lists = false })
  given.setting, given.lists = nil, nil
  if not ok then
    assert(not pcall(ett.search, given), "found what a sweep refuses: " .. tostring(rows))
    return 0
  end
  if #rows > 3000 then return 0 end
  if rows[1] and chance(3) then
    local limit = pick { "days", "dollars", "kwh" }
    local value = oracle.value(c, pick(rows), limit)
    if value then
      c.limit, c.most = limit, value * (1 + 1e-6)
      given[limit == "dollars" and "budget" or limit] = c.most
    end
  end
  local s = ett.search(given)
  if o.show then print(s) end
  given.exhaustive = true
  compare(c, s, ett.search(given), rows)
  for _ = 1, math.min(5, #rows) do oracle.check_bounds(c, pick(rows)) end
  return #rows
end

local began, seed, plans, searches, findings = os.time(), o.seed, 0, 0, 0
while os.time() - began < o.seconds and seed < o.seed + o.count do
  math.randomseed(seed)
  local ok, n = pcall(function() return check(new_case()) end)
  if not ok then
    local raised = ett.error.from(n)
    if raised.kind == "interrupt" then error(n, 0) end
    if not tostring(raised):find("field power_watts", 1, true) then
      findings = findings + 1
      print(("seed=%d: %s"):format(seed, tostring(raised)))
    end
  elseif n > 0 then
    plans, searches = plans + n, searches + 1
  end
  seed = seed + 1
end
print(("%d cases, %d with plans, %d plans, %d findings"):format(seed - o.seed, searches, plans, findings))

--- Small seeded spaces of plans for the specs and the bench of searches: models, clusters, objectives, lists of values.
local spaces = {}

local models = {
  { "llama", { layers = 8, hidden = 1024, heads = 8, ffn = 4096, vocab = 32000 } },
  { "llama", { layers = 12, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 32000 } },
  { "llama", { layers = 24, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672, vocab = 128256 } },
  { "mixtral", { layers = 8, hidden = 2048, heads = 16, kv_heads = 8, ffn = 4096, vocab = 32000, experts = 8,
    top_k = 2 } },
}
local clusters = { "dgx_h100", "perlmutter", "dgx_b200" }
local objectives = { "step_seconds", "tokens_per_second", "days", "tokens_per_second_per_device" }

--- A generator of numbers 1 to n: Park and Miller's.
local function generator(seed)
  local state = seed
  return function(n)
    state = state * 48271 % 2147483647
    return state % n + 1
  end
end

--- The first value of a list, and a random part of the others.
local function some(random, list)
  local kept = { list[1] }
  for i = 2, #list do if random(3) < 3 then kept[#kept + 1] = list[i] end end
  return kept
end

--- The arguments of a search: the model, and lists of values of every field that it searches.
function spaces.new(seed)
  local random = generator(seed)
  for _ = 1, 10 do random(10) end
  local architecture = models[random(#models)]
  local model = require("ett.model").new(architecture[1], architecture[2])
  local devices = 1 << (random(4) + 1)
  local vary = { tp = some(random, { 1, 2, 4, 8 }), pp = some(random, { 1, 2, 4 }), cp = some(random, { 1, 2 }),
    dp = { 1, 2, 4, 8, 16, 32 }, micro_batch = some(random, { 1, 2, 4 }), vp = some(random, { 1, 2, 3 }),
    schedule = some(random, { "1f1b", "interleaved", "gpipe" }),
    recompute = some(random, { "full", "policy", "selective", "none" }),
    zero = some(random, { 3, 0, 1, 2 }), reshard = some(random, { true, false }),
    overlap_parameters = { false, true },
    overlap_gradients = { false, true }, overlap_sends = { false, true } }
  vary.rank_order = { "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp" }
  vary.sequence_parallel = some(random, { false, true })
  vary.overlap_tensor = random(2) == 1 and { false, true } or { false }
  if model.hyper.experts then
    vary.etp = { 1, 2, 4, 8 }
    vary.ep = some(random, { 1, 2, 4 })
    vary.overlap_all_to_all = some(random, { "none", "batch" })
  end
  return { model = model, cluster = clusters[random(#clusters)], devices = devices, vary = vary,
    plan = { seq = 1 << (random(3) + 9), global_batch = 32 << random(3) }, objective = objectives[random(#objectives)],
    tokens = 1e9, keep = 5 }
end

--- The best value by brute force: every combination, evaluated by a sweep. nil if no plan fits.
function spaces.brute_force(given)
  local over, plan = {}, {}
  for name, list in pairs(given.vary) do over[name] = list end
  for name, value in pairs(given.plan) do plan[name] = value end
  local s = require("ett.search.sweep").new { model = given.model, cluster = given.cluster, plan = plan, over = over,
    devices = given.devices }
  local best
  for _, row in ipairs(s.rows) do
    if row.fits and (not best or row.step_seconds < best) then best = row.step_seconds end
  end
  return best, s.evaluated
end

return spaces

--- Random plans of small models, and a cluster and profile whose times are proportional to work; for the laws of
-- estimates.
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local integers = require("random").integers
local merged = require "ett.base.merged"

local random_plans = {}

--- A cluster without links; its profile is random_plans.profile.
random_plans.flat = { name = "flat", path = "spec", gpus_per_node = 4,
  device = { name = "D", peak_flops = { bf16 = 1e14, fp32 = 5e13, fp8 = 2e14 }, memory_bytes = 80e9,
    memory_bandwidth = 1e12 } }

--- Times proportional to FLOPs and bytes; link: factor on the bandwidth of its links.
function random_plans.profile(link)
  link = link or 1
  local operator = require "ett.operator"
  local function answer(seconds)
    return { seconds = seconds, low_seconds = 0.9 * seconds, high_seconds = 1.1 * seconds, provenance = "measured" }
  end
  return {
    operator = function(_, name, shape, dtype, pass)
      local op = operator.get(name)
      return answer(op.flops(shape, pass) / 1e14 + op.bytes(shape, dtype, pass) / 1e12)
    end,
    collective = function(_, _, bytes, topology)
      return answer(1e-5 * topology.nodes + bytes / (topology.nodes > 1 and 1e10 or 1e11) / link)
    end,
  }
end

--- A seeded choice from a list, the same on every machine.
function random_plans.generator(seed)
  local random = integers(seed)
  return function(list) return list[1 + random(#list)] end
end

function random_plans.llama(layers)
  return model_module.new("llama", { layers = layers, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 })
end

function random_plans.mixture(layers)
  return model_module.new("mixtral", { layers = layers, hidden = 1024, heads = 16, kv_heads = 4, ffn = 2816,
    vocab = 32000, experts = 8, top_k = 2, shared_experts = 1 })
end

--- Random valid plans; each plan is a new table.
function random_plans.plans(count, seed, model)
  local random, list = random_plans.generator(seed), {}
  while #list < count do
    local p = { pp = random { 1, 2, 3, 4, 5 }, tp = random { 1, 2, 4 }, dp = random { 1, 2, 4, 8 },
      cp = random { 1, 1, 2 }, ep = model.hyper.experts and random { 1, 2, 4 } or 1, seq = random { 1024, 2048 },
      micro_batch = random { 1, 2 }, micro_batches = random { 1, 4, 8 },
      schedule = random { "gpipe", "1f1b", "1f1b", "interleaved" }, recompute = random { "none", "selective", "full" },
      zero = random { 0, 1, 2, 3 }, sequence_parallel = random { true, false }, dtype = random { "bf16", "fp8" },
      overlap_gradients = random { true, false }, overlap_parameters = random { true, false },
      overlap_all_to_all = model.hyper.experts and random { "none", "shared_experts", "batch" } or "none",
      deduplicate_tokens = random { true, false }, overlap_sends = random { true, false },
      clip_gradients = random { true, false }, bucket_bytes = random { 2e7, 1e12 } }
    if p.schedule == "interleaved" then p.vp = 2 end
    if #plan_module.violations(p, model, random_plans.flat) == 0 then list[#list + 1] = p end
  end
  return list
end

--- A copy with some fields changed.
function random_plans.with(p, changes) return merged(p, changes) end

return random_plans

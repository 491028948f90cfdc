--- Lower bounds of a step of a decoder, dense or of experts, computed independently: its products, its memory traffic,
-- and the bytes that must leave the units of each tier. Only the fields of plans and clusters come from ett.
local random_plans = require "random_plans"
local rank_map = require "rank_map"

local step_bounds = {}

-- Line rates of clusters that state measured bandwidths, in bytes/s of a GPU in one direction: link inside the node,
-- card.
local hardware = { perlmutter = { 300e9, 25e9 }, vista = { 450e9, 50e9 } }

local element = { bf16 = 2, fp16 = 2, fp32 = 4, fp8 = 1 }

--- Parameters of a layer that a token uses: attention, and a gated MLP or the experts of its choice.
local function layer_parameters(h)
  local kv = (h.kv_heads or h.heads) * h.hidden // h.heads
  return 2.0 * h.hidden * h.hidden + 2.0 * h.hidden * kv + 3.0 * h.hidden * h.ffn * (h.experts and h.top_k or 1)
end

--- Parameters of a layer that one rank holds: dense, and of experts.
local function held(h, p)
  local kv = (h.kv_heads or h.heads) * h.hidden // h.heads
  local attention, mlp = 2.0 * h.hidden * (h.hidden + kv), 3.0 * h.hidden * h.ffn
  if not h.experts then return (attention + mlp) / p.tp, 0.0 end
  return attention / p.tp, mlp * h.experts / p.ep / p.etp
end

local function products(h, p, cluster)
  local tokens = 1.0 * p.micro_batch * p.micro_batches * p.seq / p.cp
  local layers = h.layers * layer_parameters(h) * (p.recompute == "full" and 8 or 6)
  local flops = (layers + 6.0 * h.vocab * h.hidden) * tokens / p.tp / p.pp
  return flops / cluster.device.peak_flops[p.dtype]
end

--- Weights are read in each pass and gradients are written for each micro-batch, except the part that fits in a cache.
-- The update reads and writes its state.
local function memory(h, p, cluster)
  local cache = cluster.device.l2_bytes or 3e8
  local dense, experts = held(h, p)
  local own = h.layers * dense / p.pp
  local function beyond(bytes) return math.max(0.0, bytes - cache) end
  local passes = p.micro_batches * (2 * beyond(own * element[p.dtype]) + beyond(4 * own))
  local updated = own / (p.zero > 0 and p.dp * p.cp or 1)
  if experts > 0 then -- an expert may get no token, but its weights are updated
    updated = updated + h.layers * experts / p.pp / (p.zero > 0 and p.tp * p.cp * p.dp / (p.ep * p.etp) or 1)
  end
  return (passes + beyond(updated * (12 + 12 + 4 + 2))) / cluster.device.memory_bandwidth
end

--- Tiers as { below = devices of a lower unit, unit = bytes/s out of it, device = bytes/s of one of its devices }.
local function tiers_of(cluster)
  local list, own = {}, hardware[cluster.name]
  if not cluster.tiers then
    local intra, inter, node = cluster.links.intra, cluster.links.inter, cluster.gpus_per_node
    if intra then -- curves by kind may be a quarter above the stated bandwidth
      local most = own and own[1] or 1.25 * math.max(intra.bandwidth, intra.send_bandwidth or 0)
      list[1] = { below = 1, size = node, unit = most, device = most }
    end
    if inter then
      list[#list + 1] = { below = node, unit = own and node * own[2] or inter.bandwidth_per_node,
        device = own and own[2] or math.max(inter.bandwidth_per_gpu, inter.send_bandwidth or 0) }
    end
    return list
  end
  local below, cards_below = 1, nil
  for k, tier in ipairs(cluster.tiers) do
    local cards = tier.rails or cards_below or below
    local alone = k == 1 or tier.through == false -- messages to outer tiers have other links
    list[k] = { below = below, size = alone and tier.size or nil, device = tier.bandwidth * math.max(1, cards / below),
      unit = tier.unit_bandwidth or cards * tier.bandwidth / (tier.oversubscription or 1) }
    if k == 1 then list[k].unit, list[k].device = 1.25 * list[k].unit, 1.25 * list[k].device end
    cards_below = not alone and tier.size and cards * tier.size // below or nil
    below = tier.size or below
  end
  return list
end

--- Number of units that contain devices of a list. For a tier with separate links, only if all devices are in one of
-- its units.
local function touched(list, tier)
  local units, seen = 0, {}
  for _, device in ipairs(list) do
    if tier.size and device // tier.size ~= list[1] // tier.size then return 1 end
    local unit = device // tier.below
    if not seen[unit] then units, seen[unit] = units + 1, true end
  end
  return units
end

--- Ordered pairs of a list's devices that are on two units; for a tier with separate links as in `touched`.
local function leaving_pairs(list, tier)
  local count, pairs_apart = {}, 0
  if tier.size and touched(list, tier) == 1 then return 0 end
  for _, device in ipairs(list) do count[device // tier.below] = (count[device // tier.below] or 0) + 1 end
  for _, members in pairs(count) do pairs_apart = pairs_apart + members * (#list - members) end
  return pairs_apart
end

--- Bytes a step that leave all units together: an all-reduce over u units moves at least 2 (u - 1) buffers.
local function leaving(h, p, tier)
  local layers, total = h.layers // p.pp, 0.0
  local dense, experts = held(h, p)
  local gradients = layers * ({ [0] = 8, 4 + 2, 4 * p.micro_batches + 2, (4 + 2 + 2) * p.micro_batches })[p.zero]
  local message = 2.0 * p.micro_batch * p.seq / p.cp * h.hidden
  local blocks = h.experts and 1 or 2 -- that end in a sum over tp: attention, a dense MLP
  local tensor = p.micro_batches * layers * blocks * (p.recompute == "full" and 3 or 2) * 2 * message
  local function each(name, bytes)
    if bytes == 0 then return end
    for _, list in ipairs(rank_map.members(p, nil, name)) do total = total + bytes * (touched(list, tier) - 1) end
  end
  each("data", gradients * dense)
  each("expert data", gradients * experts)
  each("tp", tensor)
  if h.experts and not p.deduplicate_tokens then -- dispatch and combine, forward and backward
    local copies = element[p.dtype] * p.micro_batch * p.seq / p.cp / p.tp * h.hidden * h.top_k
    for _, list in ipairs(rank_map.members(p, nil, "ep")) do
      total = total + 4 * p.micro_batches * layers * copies * (leaving_pairs(list, tier) / #list)
    end
  end
  local boundary = 2 * p.micro_batches * (p.sequence_parallel and message / p.tp or message)
  for _, pair in ipairs(rank_map.neighbours(p)) do total = total + boundary * (touched(pair, tier) - 1) end
  return total
end

--- Bounds of a step: { what, seconds }, … p: a plan with every field that the random ones have.
function step_bounds.of(h, p, cluster)
  local list = { { "products", products(h, p, cluster) }, { "memory", memory(h, p, cluster) } }
  local world = p.tp * p.cp * p.dp * p.pp
  for k, tier in ipairs(tiers_of(cluster)) do
    local units = math.ceil(world / tier.below)
    -- Units share their load; the last one may hold fewer devices.
    local bandwidth = math.min(units * tier.unit, world * tier.device)
    list[#list + 1] = { "tier " .. k, leaving(h, p, tier) / bandwidth }
  end
  return list
end

--- A random cluster of three or four tiers; the second one may be a domain of links of its own.
function step_bounds.cluster(pick)
  local tiers = { { name = "node", size = pick { 2, 4, 8 }, bandwidth = pick { 5e10, 4e11 }, source = "spec" } }
  local size = tiers[1].size
  for k = 2, pick { 2, 3 } do
    local rails = pick { nil, size, size // 2 }
    size = size * pick { 2, 4 }
    tiers[k] = { name = "tier " .. k, size = size, bandwidth = pick { 5e9, 5e10 }, rails = rails, source = "spec",
      oversubscription = pick { 1, 1, 2, 8 } }
    if k == 2 and pick { false, false, true } then
      tiers[k].through, tiers[k].bandwidth, tiers[k].rails, tiers[k].oversubscription = false, 4e11, nil, 1
    end
  end
  tiers[#tiers + 1] = { name = "top", bandwidth = pick { 1e9, 5e10 }, oversubscription = pick { 1, 4 },
    source = "spec" }
  return { name = "tiers", summary = "random tiers", source = "spec", device = "h100_sxm", tiers = tiers }
end

--- Estimates of random plans on every cluster and on random tiers: sentences on estimates below a bound, and the number
-- of plans.
function step_bounds.below(count, seed)
  local ett = require "ett"
  local names, pick = require("ett.profile.cluster").names(), random_plans.generator(seed)
  local found, tried = {}, 0
  local models = { random_plans.llama(8), ett.model.new("llama", { layers = 8, hidden = 8192, heads = 64, kv_heads = 8,
    ffn = 28672, vocab = 32000 }), ett.model.new("mixtral", { layers = 8, hidden = 4096, heads = 32, kv_heads = 8,
    ffn = 14336, vocab = 32000, experts = 8, top_k = 2, shared_experts = 1 }) }
  local plans = { random_plans.plans(count, seed, models[1]), random_plans.plans(count, seed, models[3]) }
  for i = 1, count do
    local model = models[1 + i // 3 % 3]
    local p = plans[model.hyper.experts and 2 or 1][i]
    p.etp = p.tp
    local given = i % 3 == 0 and step_bounds.cluster(pick) or names[1 + i % #names]
    local cluster = ett.cluster.get(given)
    if not cluster.device.peak_flops[p.dtype] then p.dtype = "bf16" end
    p.rank_order = pick { true, false } and rank_map.order(pick) or "tp-cp-ep-dp-pp"
    local ok, e = pcall(ett.estimate, { model = model, cluster = cluster, plan = random_plans.with(p, {}) })
    if ok then
      tried = tried + 1
      for _, bound in ipairs(step_bounds.of(model.hyper, p, cluster)) do
        if e.step_seconds < bound[2] * (1 - 1e-9) then
          found[#found + 1] = ("%s: %s tp %d cp %d dp %d pp %d zero %d: %s needs %.4g s, the step takes %.4g"):format(
            cluster.name, p.rank_order, p.tp, p.cp, p.dp, p.pp, p.zero, bound[1], bound[2], e.step_seconds)
        end
      end
    end
  end
  return found, tried
end

return step_bounds

--- Steps on clusters of several kinds of nodes, composed of estimates on clusters of one kind: the oracle of ett's
-- parts. Ranks are placed on devices one by one, and the pipeline runs in the simulator.
local estimate = require "ett.step.estimate"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local rank_map = require "rank_map"
local integers = require("random").integers
local simulator = require "pipeline_simulator"

local cluster_parts = {}

local model = model_module.new("llama", { layers = 7, hidden = 1024, heads = 8, ffn = 2816, vocab = 8000 })

local function links(bandwidth)
  return { inter = { bandwidth_per_gpu = bandwidth, bandwidth_per_node = bandwidth, latency = 1e-6, source = "spec" } }
end

--- A cluster of one kind. Each node has one device, so all messages use the network.
function cluster_parts.kind(name, flops, memory_bandwidth, memory, network)
  return { name = name, summary = name, source = "spec", gpus_per_node = 1, links = links(network),
    host = { bandwidth = 1e10, source = "spec" },
    device = { name = name, source = "spec", peak_flops = { bf16 = flops, fp32 = flops / 2 }, memory_bytes = memory,
      memory_bandwidth = memory_bandwidth } }
end

local kinds = {
  cluster_parts.kind("fast", 1e15, 1e12, 80e9, 4e10), cluster_parts.kind("wide", 2e14, 4e12, 2.2e9, 1e10),
  cluster_parts.kind("slow", 1e14, 5e11, 40e9, 2e10),
}

local orders = { "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-tp-cp-ep-dp", "cp-tp-ep-dp-pp" }

--- A random plan, and a random cluster with enough nodes for it.
local function random_case(random)
  local p = { pp = random(4), tp = 1 << random(0, 1), cp = 1 << random(0, 1), dp = 1 << random(0, 2), seq = 1024,
    micro_batches = random(4, 9), schedule = random(2) == 1 and "1f1b" or "gpipe", zero = random(0, 1),
    bucket_bytes = 1e12, rank_order = orders[random(#orders)] }
  if p.rank_order:sub(-2) ~= "pp" then p.cp = 1 end -- otherwise experts have other stages
  local world, block = p.pp * p.tp * p.cp * p.dp, random(3) == 1 and 1 or p.tp * p.cp
  if random(2) == 1 then -- blocks of ranks on shuffled places
    local places, map = {}, {}
    for i = 1, world // block do table.insert(places, random(i), i - 1) end
    for i, place in ipairs(places) do
      for k = 1, block do map[(i - 1) * block + k] = place * block + k - 1 end
    end
    p.rank_map = map
  end
  local list, left, unit = {}, world, random(4) == 1 and 1 or p.tp * p.cp
  while left > 0 or #list < 2 do
    local nodes = unit * random(math.max(1, #list == 5 and left or left // unit))
    if #list == 5 then nodes = math.max(nodes, left) end
    list[#list + 1] = { cluster = kinds[random(#kinds)], nodes = nodes }
    left = left - nodes
  end
  return p, { name = "mixed", summary = "mixed", source = "spec", parts = list, links = links(random(2) * 8e9) }
end

--- The part of every device, from 0.
local function part_of_devices(cluster)
  local list, device = {}, 0
  for i, part in ipairs(cluster.parts) do
    for _ = 1, part.nodes do list[device], device = i, device + 1 end
  end
  return list
end

--- Whether a tensor or context group has devices of two parts.
local function crosses(p, part)
  for _, name in ipairs { "tp", "cp" } do
    for _, group in ipairs(rank_map.members(p, p.rank_map, name)) do
      for _, device in ipairs(group) do if part[device] ~= part[group[1]] then return true end end
    end
  end
  return false
end

--- The set of parts of each stage.
local function parts_of_stages(p, part)
  local stages, degree = {}, { tp = p.tp, cp = p.cp, ep = 1, dp = p.dp, pp = p.pp }
  for stage = 1, p.pp do stages[stage] = {} end
  for rank = 0, p.pp * p.tp * p.cp * p.dp - 1 do
    local rest, at = rank, {}
    for axis in p.rank_order:gmatch "%a+" do at[axis], rest = rest % degree[axis], rest // degree[axis] end
    stages[at.pp + 1][part[p.rank_map and p.rank_map[rank + 1] or rank]] = true
  end
  return stages
end

local function with_links(cluster, own)
  local copy = merged(cluster)
  copy.links = own
  return copy
end

--- The maximum of a field of one stage over the parts of `set`.
local function most(set, on, stage, field)
  local value, which = -1, nil
  for part in pairs(set) do
    local own = on[part].stages[stage][field]
    if own > value then value, which = own, part end
  end
  return value, which
end

--- The time of a step on a cluster of parts, computed without ett.step: { step, pipeline, stages = { slowest,
-- gradients, update, set } }.
local function expected(p, cluster, sets)
  local on, m = {}, p.micro_batches
  for i, part in ipairs(cluster.parts) do on[i] = estimate.new { model = model, plan = p, cluster = part.cluster } end
  local joined = estimate.new { model = model, plan = p,
    cluster = with_links(cluster.parts[1].cluster, cluster.links) }
  local function send(stage) -- to the next stage
    local both, slowest, kinds_met = {}, 0.0, 0
    for part in pairs(sets[stage]) do both[part] = true end
    for part in pairs(sets[stage + 1]) do both[part] = true end
    for part in pairs(both) do
      slowest, kinds_met = math.max(slowest, on[part].stages[1].send_seconds / m), kinds_met + 1
    end
    return kinds_met > 1 and math.max(slowest, joined.stages[1].send_seconds / m) or slowest
  end
  local times = { forward = {}, backward = {}, send_forward = {}, send_backward = {}, blocking_sends = true }
  local stages, ready, update = {}, 0.0, 0.0
  for s = 1, p.pp do
    local slow, which = -1, nil
    for part in pairs(sets[s]) do
      local own = on[part].stages[s]
      local total = own.micro_batch_forward_seconds + own.micro_batch_backward_seconds
      if total > slow then slow, which = total, part end
    end
    local own = on[which].stages[s]
    times.forward[s], times.backward[s] = own.micro_batch_forward_seconds, own.micro_batch_backward_seconds
    times.send_forward[s] = s < p.pp and send(s) or 0
    times.send_backward[s] = times.send_forward[s]
    local spread = next(sets[s], next(sets[s])) ~= nil
    local function message(field)
      local value = most(sets[s], on, s, field)
      return spread and math.max(value, joined.stages[s][field]) or value
    end
    stages[s] = { slowest = which, gradients = message "gradient_seconds", gather = message "gather_exposed_seconds",
      update = most(sets[s], on, s, "optimizer_seconds"), memory = own.memory_bytes }
    update = math.max(update, stages[s].update + stages[s].gather)
  end
  local pipeline, ends = simulator.run(simulator.schedule(p.schedule, { pp = p.pp, vp = 1, micro_batches = m }), times)
  for s = 1, p.pp do -- a stage reduces its gradients while the gradient of its input is sent
    ready = math.max(ready, ends[s] - (times.send_backward[s - 1] or 0) + stages[s].gradients)
  end
  return { pipeline = pipeline, step = ready + update, stages = stages }
end

local function far(a, b) return math.abs(a - b) > 1e-9 * math.max(math.abs(a), math.abs(b)) end

-- The difference between an estimate and the oracle; nil if there is none.
local function difference(e, want, sets, cluster)
  if far(e.step_seconds, want.step) then return ("step %.12g, not %.12g"):format(e.step_seconds, want.step) end
  if far(e.pipeline_seconds, want.pipeline) then return "pipeline" end
  local fits = true
  for s, stage in ipairs(e.stages) do
    local own, limit, names = want.stages[s], math.huge, {}
    for part in pairs(sets[s]) do
      limit = math.min(limit, cluster.parts[part].cluster.device.memory_bytes)
      names[cluster.parts[part].cluster.name] = true
    end
    for _, name in ipairs(stage.devices) do
      if not names[name] then return "devices of stage " .. s end
      names[name] = nil
    end
    if next(names) then return "devices of stage " .. s end
    if far(stage.gradient_seconds, own.gradients) or far(stage.optimizer_seconds, own.update)
      or stage.memory_bytes ~= own.memory or stage.memory_limit_bytes ~= limit then
      return "stage " .. s
    end
    fits = fits and stage.memory_bytes <= limit
  end
  if e.fits ~= fits then return "fits" end
end

--- Random cases against the oracle.
---@return table { cases, refused, spread (stages on several parts), wrong = list of sentences }
function cluster_parts.check(count, seed)
  local next_integer, found = integers(seed), { cases = count, refused = 0, spread = 0, unfit = 0, wrong = {} }
  local function random(low, high)
    if not high then low, high = 1, low end
    return low + next_integer(high - low + 1)
  end
  for case = 1, count do
    local p, cluster = random_case(random)
    local part = part_of_devices(cluster)
    local ok, e = pcall(estimate.new, { model = model, plan = p, cluster = cluster })
    local said
    if crosses(p, part) then
      found.refused = found.refused + 1
      said = (ok or not tostring(e):find("are on unlike devices", 1, true)) and "not refused: " .. tostring(e)
    elseif not ok then
      said = "refused: " .. tostring(e)
    else
      local sets = parts_of_stages(p, part)
      for _, set in ipairs(sets) do found.spread = found.spread + (next(set, next(set)) and 1 or 0) end
      found.unfit = found.unfit + (e.fits and 0 or 1)
      said = difference(e, expected(p, cluster, sets), sets, cluster)
    end
    if said then found.wrong[#found.wrong + 1] = ("case %d: %s"):format(case, said) end
  end
  return found
end

return cluster_parts

--- Estimates on a cluster with parts: the shares of each stage's devices on the parts, the runs of layers on each part,
--- and the averages of peak rate, price and failures. Power is averaged in ett.step.energy.
local counts_of = require("ett.profile.network.parts").counts
local ranks = require "ett.plan.ranks"
local schedules = require "ett.plan.schedules"
local slices = require "ett.step.slices"

local parts = {}

--- The share of every stage's devices that is on each part: { { share, … }, … }; nil if the cluster has no parts.
function parts.shares(cluster, p, devices)
  if not cluster.parts then return nil end
  local stride, each, list, first = ranks.stride(p, "pp"), p.pp / devices, {}, 0
  for s = 1, p.pp do list[s] = {} end
  local function below(rank, s)
    return rank // (stride * p.pp) * stride + math.max(0, math.min(stride, rank % (stride * p.pp) - (s - 1) * stride))
  end
  for k, count in ipairs(counts_of(cluster, devices)) do
    for s = 1, p.pp do list[s][k] = p.rank_map and 0 or (below(first + count, s) - below(first, s)) * each end
    for rank = 0, p.rank_map and devices - 1 or -1 do
      local device, s = p.rank_map[rank + 1], rank // stride % p.pp + 1
      if first <= device and device < first + count then list[s][k] = list[s][k] + each end
    end
    first = first + count
  end
  return list
end

--- How often each kind of layer runs in a step on the devices of each part: { { runs, … }, … }, summed over stages. The
--- slots of a bidirectional schedule run equal numbers of micro-batches.
---@param shares table of parts.shares
---@param kinds table of a lowered program
function parts.runs(shares, p, kinds)
  local list, layers, index = {}, slices.layers(p, kinds), {}
  for k, kind in ipairs(kinds) do index[kind] = k end
  for part in ipairs(shares[1]) do
    list[part] = {}
    for k in ipairs(kinds) do list[part][k] = 0.0 end
  end
  local each = p.micro_batches / schedules.ways(p.schedule)
  for slot, slice in ipairs(schedules.slices(p)) do
    for part, share in ipairs(shares[(slot - 1) % p.pp + 1]) do
      for _, kind in ipairs(share > 0 and layers[slice] or {}) do
        list[part][index[kind]] = list[part][index[kind]] + share * each
      end
    end
  end
  return list
end

--- Names of the devices of the parts in `bits`.
local function names(cluster, bits)
  local list, seen = {}, {}
  for k, part in ipairs(cluster.parts) do
    if bits >> k - 1 & 1 == 1 and not seen[part.device.name] then
      seen[part.device.name] = true
      list[#list + 1] = part.device.name
    end
  end
  return list
end

--- Adds the devices of each part to an estimate, and to each stage its own. The memory is that of the stage with the
--- highest share of used memory.
function parts.add(e, cluster)
  if not cluster.parts then return end
  e.parts = {}
  for k, count in ipairs(counts_of(cluster, e.devices)) do
    local part = cluster.parts[k]
    e.parts[k] = { cluster = part.name, device = part.device.name, devices = count, nodes = part.nodes }
  end
  e.device = table.concat(names(cluster, -1), ", ")
  for _, s in ipairs(e.stages) do
    s.device, s.devices = cluster.parts[s.part].device.name, names(cluster, s.parts)
    s.parts = nil
  end
end

local function mean(cluster, counts, devices, of)
  local sum = 0.0
  for k, count in ipairs(counts) do
    local value = of(cluster.parts[k])
    if count > 0 and not value then return nil end
    sum = sum + (count > 0 and count / devices * value or 0.0)
  end
  return sum
end

local function peak(p) return function(part) return require("ett.profile.device").peak(part.device, p.dtype) end end

function parts.peak(cluster, p, devices)
  if not cluster.parts then return peak(p)(cluster) end
  return mean(cluster, counts_of(cluster, devices), devices, peak(p))
end

--- A warning if some parts in use state a failure rate and others do not, so that the cluster has none; else nil.
function parts.rate_warning(cluster, e)
  if not cluster.parts or e.plan.failures_per_device_day then return nil end
  local without, seen, stated = {}, {}, false
  for k, count in ipairs(counts_of(cluster, e.devices)) do
    local part = cluster.parts[k]
    stated = stated or count > 0 and part.failures ~= nil
    if count > 0 and not part.failures and not seen[part.name] then without[#without + 1] = part.name end
    seen[part.name] = true
  end
  return stated and #without > 0 and ("no failures are counted: these parts state no rate: %s; "
    .. "failures_per_device_day=N sets it for all devices"):format(table.concat(without, ", ")) or nil
end

--- A cluster for ett.step.cost and ett.step.goodput, with average price and failure rate of a device.
function parts.mean_cluster(cluster, devices)
  if not cluster.parts then return cluster end
  local counts, restart = counts_of(cluster, devices), nil
  local rate = mean(cluster, counts, devices, function(part) return part.failures and part.failures.per_device_day end)
  for k, count in ipairs(counts) do
    local own = cluster.parts[k].failures
    if count > 0 and own and own.restart_seconds then restart = math.max(restart or 0, own.restart_seconds) end
  end
  return { price_per_gpu_hour = mean(cluster, counts, devices, function(part) return part.price_per_gpu_hour end),
    price_source = cluster.price_source, failures = rate and { per_device_day = rate, restart_seconds = restart } }
end

return parts

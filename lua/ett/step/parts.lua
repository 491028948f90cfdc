--- Estimates on a cluster with parts: placement of stages, and averages of price, failures and power.
local counts_of = require("ett.profile.network.parts").counts

local parts = {}

--- Devices of each part among the first `devices`; nil if the cluster has no parts.
function parts.counts(cluster, devices) return cluster.parts and counts_of(cluster, devices) end

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

--- A cluster for ett.step.cost and ett.step.goodput, with average price and failure rate of a device.
function parts.outlook(cluster, devices)
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

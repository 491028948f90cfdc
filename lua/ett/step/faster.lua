--- Times with a faster part of the machine, to measure the effect of 10 % more of a rate.
local cluster_module = require "ett.profile.cluster"
local merged = require "ett.base.merged"
local network_tiers = require "ett.profile.network.tiers"

local faster = {}

--- 10 % more.
faster.gain = 1.1

--- The parts that are varied. A faster host launches kernels, moves offloaded bytes and updates in less time.
faster.parts = { "compute", "memory", "node", "network", "host" }

local products = require("ett.operator").products

--- The part that limits operators of a family: compute for matrix products and attention, memory for others.
function faster.part_of(family) return products[family] and "compute" or "memory" end

local function scaled(answer, applies)
  if not applies or not answer then return answer end
  local copy = {}
  for key, value in pairs(answer) do copy[key] = key:find "seconds$" and value / faster.gain or value end
  return copy
end

-- A stack with faster launches.
local function launching(stack)
  return stack and merged(stack, { launch_seconds = stack.launch_seconds / faster.gain,
    expert_seconds = stack.expert_seconds / faster.gain, gather_seconds = stack.gather_seconds / faster.gain })
end

--- The cluster, in which the host is faster if that is the part.
function faster.cluster(cluster, part)
  if part ~= "host" then return cluster end
  local function of(own)
    local host = own.host
    return host and merged(own, { host = merged(host, { bandwidth = faster.gain * host.bandwidth,
      memory_bandwidth = faster.gain * (host.memory_bandwidth or network_tiers.host_memory_bandwidth) }) }) or own
  end
  local parts = {}
  for k, own in ipairs(cluster.parts or {}) do parts[k] = of(own) end
  return cluster_module.changed(of(cluster), { parts = cluster.parts and parts })
end

--- A view of times in which one part is faster.
---@param times table of ett.step.times
---@param part "compute"|"memory"|"node"|"network"|"host"
function faster.times(times, part)
  if times.parts then
    local all = times:with(function(own) return faster.times(own, part) end)
    all.network_gain = part == "network" and faster.gain or 1.0
    return all
  end
  local view = setmetatable({ node_gain = part == "node" and faster.gain or 1.0,
    stack = part == "host" and launching(times.stack) or nil }, { __index = times })
  function view.operator(_, op, ...) return scaled(times:operator(op, ...), faster.part_of(op.family) == part) end
  function view.collective(_, kind, bytes, topology, dtype)
    return scaled(times:collective(kind, bytes, topology, dtype), (topology.nodes > 1 and "network" or "node") == part)
  end
  function view.for_stack(_, name) return name and faster.times(times:for_stack(name), part) or view end
  return view
end

return faster

--- Times with a faster part of the machine, to measure the effect of 10 % more of a rate.
local faster = {}

--- 10 % more.
faster.gain = 1.1

--- The parts that are varied.
faster.parts = { "compute", "memory", "node", "network" }

local products = require("ett.operator").products

--- The part that limits operators of a family: compute for matrix products and attention, memory for others.
function faster.part_of(family) return products[family] and "compute" or "memory" end

local function scaled(answer, applies)
  if not applies or not answer then return answer end
  local copy = {}
  for key, value in pairs(answer) do copy[key] = key:find "seconds$" and value / faster.gain or value end
  return copy
end

--- A view of times in which one part is faster.
---@param times table of ett.step.times
---@param part "compute"|"memory"|"node"|"network"
function faster.times(times, part)
  if times.parts then
    local all = times:with(function(own) return faster.times(own, part) end)
    all.network_gain = part == "network" and faster.gain or 1.0
    return all
  end
  local view = setmetatable({ node_gain = part == "node" and faster.gain or 1.0 }, { __index = times })
  function view.operator(_, op, ...) return scaled(times:operator(op, ...), faster.part_of(op.family) == part) end
  function view.collective(_, kind, bytes, topology, dtype)
    return scaled(times:collective(kind, bytes, topology, dtype), (topology.nodes > 1 and "network" or "node") == part)
  end
  function view.for_stack(_, name) return name and faster.times(times:for_stack(name), part) or view end
  return view
end

return faster

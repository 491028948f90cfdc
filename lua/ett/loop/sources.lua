--- Sources of predicted operator times: the cluster's profile at two rates of products, and other clusters with
--- measured operators of the same device. Times of messages always use the links of the cluster.
local clusters = require "ett.profile.cluster"
local times_module = require "ett.step.times"

local sources = {}

local Borrowed = {}
Borrowed.__index = Borrowed

local uncertain = { extrapolated = true, assumed = true }

--- The other cluster's answer; outside its samples the answer of the cluster's profile, if that is less uncertain.
function Borrowed:operator(name, shape, dtype, pass)
  local answer = self.other:operator(name, shape, dtype, pass)
  if answer and not uncertain[answer.provenance] then return answer end
  local own = self.own:operator(name, shape, dtype, pass)
  return own and (not answer or not uncertain[own.provenance]) and own or answer
end

function Borrowed:collective(...) return self.own:collective(...) end

function Borrowed:with_stack(stack)
  return setmetatable({ other = self.other, own = self.own:with_stack(stack) }, Borrowed)
end

--- Clusters of the same device whose operators were sampled there.
local function measured_elsewhere(cluster)
  local list = {}
  for _, name in ipairs(clusters.names()) do
    local other = clusters.get(name)
    local said = other.profile
    local sampled = type(said) == "string" or type(said) == "table" and said.folder
    if sampled and other.name ~= cluster.name and other.device and other.device.name == cluster.device.name then
      list[#list + 1] = other
    end
  end
  return list
end

--- Times of a subject by source: { { "sustained", "burst" or a cluster's name, times, generated }, … }. A given profile
--- or given samples are the only source. generated: times of compiler-generated kernels, which other clusters' samples
--- do not contain; nil if they equal `times`.
---@param subject table of ett.loop.subject
function sources.of(subject)
  local times = times_module.new(subject.cluster, subject.profile)
  local own = times.profile
  local burst = own and own.at_burst and own:at_burst()
  local list = { { "sustained", times }, burst and { "burst", times_module.new(subject.cluster, burst) } or nil }
  if subject.profile or subject.cluster.profile or subject.cluster.parts then return list end
  for _, other in ipairs(measured_elsewhere(subject.cluster)) do
    local measured = require("ett.profile.of_cluster").open(other)
    -- Samples are of single kernels, like the tables at burst rates.
    list[#list + 1] = { other.name, times_module.new(subject.cluster, setmetatable({ other = measured,
      own = burst or own }, Borrowed)), times_module.new(subject.cluster, burst or own) }
  end
  return list
end

return sources

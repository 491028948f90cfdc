--- Times of operators, messages and updates: answers of a profile, asked for once, and assumptions where it has none
--- (ett.profile.assumed).
--
--   local times = require("ett.step.times").new(cluster, profile)
--   times:operator(op, shape, "bf16", "forward") -> { seconds, low_seconds, high_seconds, provenance, detail }
local assumed = require "ett.profile.assumed"
local comm = require "ett.comm"
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"

local times = {}
local Times = {}
Times.__index = Times

--- From best to worst; a line that joins several answers shows the worst.
times.provenances = { "measured", "interpolated", "calibrated", "extrapolated", "assumed" }
local rank = {}
for i, name in ipairs(times.provenances) do rank[name] = i end

--- The less certain of two provenances.
function times.worse(a, b)
  if a == nil or b == nil then return a or b end
  return (rank[a] or #times.provenances) >= (rank[b] or #times.provenances) and a or b
end

local function check(answer, what)
  local s, low, high = answer.seconds, answer.low_seconds, answer.high_seconds
  if type(s) ~= "number" or s ~= s or s < 0 or s == math.huge then
    error_module.raise("model", "the profile's time of %s must be finite and at least 0, got %s", what,
      schema.describe(s))
  end
  answer.low_seconds = type(low) == "number" and low >= 0 and low <= s and low or s
  answer.high_seconds = type(high) == "number" and high >= s and high < math.huge and high or s
  return answer
end

local sorted_fields = setmetatable({}, { __mode = "k" })

--- A shape as text: the same text for the same shape.
function times.shape_key(op, shape)
  local fields = sorted_fields[op]
  if not fields then
    fields = schema.keys(op.schema)
    sorted_fields[op] = fields
  end
  local words = {}
  for i = 1, #fields do words[i] = tostring(shape[fields[i]]) end
  return table.concat(words, " ")
end

-- Pipeline stages update with kernels of their own; a profile may hold only the whole model's update, `optimizer`. That
-- answer is taken where the stage's is missing or only assumed.
local update_operators = { first = "first_stage_optimizer", middle = "middle_stage_optimizer",
  last = "last_stage_optimizer" }

local function sampled(profile, op, shape, dtype, pass)
  if not profile then return nil end
  local answer = profile:operator(op.name, shape, dtype, pass)
  if pass ~= "update" or answer and answer.provenance ~= "assumed" then return answer end
  local whole = profile:operator("optimizer", shape, dtype, pass)
  return whole and (not answer or whole.provenance ~= "assumed") and whole or answer
end

--- Seconds of one run of an operator.
---@param op table from ett.operator
---@param shape table
---@param dtype string
---@param pass string "forward", "backward" or "update"
---@param key string? times.shape_key, when the caller has it
function Times:operator(op, shape, dtype, pass, key)
  local known = self.operators[pass]
  local id = op.name .. " " .. dtype .. " " .. (key or times.shape_key(op, shape))
  local answer = known[id]
  if not answer then
    answer = sampled(self.profile, op, shape, dtype, pass) or assumed.operator(self.cluster, op, shape, dtype, pass)
    known[id] = check(answer, ("%s (%s)"):format(op.name, pass))
  end
  return answer
end

--- The time of a group of `ranks`, of which gpus_per_node are on its poorest node, from that of as many on each of its
--- nodes: the bytes that a rank moves, of an all_to_all those that leave the node, are in the ratio of the factors.
local function uneven(answer, kind, topology)
  local n, inside, ranks = topology.nodes, topology.gpus_per_node, topology.ranks
  if answer.placed or not ranks or ranks == n * inside then return answer end
  local ratio
  if kind == "all_to_all" then
    ratio = (1 - inside / ranks) / (1 - 1 / n)
  else
    ratio = comm.factor(kind, ranks) / comm.factor(kind, n * inside)
  end
  local scaled = {}
  for key, value in pairs(answer) do scaled[key] = key:find "seconds$" and ratio * value or value end
  return scaled
end

--- Seconds that a node's network needs for all groups that leave the node at once; 0 where one does, as it was sampled.
local function network_seconds(kind, bytes, topology, place, inter)
  if kind == "send_recv" then
    return bytes * place.groups / (inter.send_bandwidth_per_node or inter.bandwidth_per_node)
  end
  if place.groups < 2 then return 0.0 end
  local share = comm.factor(kind, topology.ranks)
  if kind == "all_to_all" then share = place.members * (topology.ranks - place.most) / topology.ranks end
  return bytes * share * place.groups / inter.bandwidth_per_node
end

--- A message of which several leave a node at once takes at least its share of the node's network. An answer that was
--- sampled with all sends at once (`together`) holds that already, and one of the cluster's tiers (`placed`).
local function shared(answer, kind, bytes, topology, cluster)
  local inter = cluster.links and cluster.links.inter
  local place = topology.tiers and topology.tiers[(cluster.node_tier or 1) + 1]
  if answer.together or answer.placed or topology.nodes < 2 or not (place and inter) then return answer end
  local least = network_seconds(kind, bytes, topology, place, inter)
  if answer.seconds >= least then return answer end
  local ratio, slower = least / answer.seconds, {}
  for key, value in pairs(answer) do slower[key] = key:find "seconds$" and ratio * value or value end
  slower.detail = ("%d groups share the node's network; %s"):format(place.groups, answer.detail or "")
  return slower
end

--- A topology as text: the same text for the same place.
local function place_key(topology)
  local words = { topology.nodes, topology.gpus_per_node, topology.ranks or 0, topology.groups_per_node or 0 }
  for _, place in ipairs(topology.tiers or {}) do
    local n = #words
    words[n + 1], words[n + 2], words[n + 3] = place.units, place.members, place.groups
    words[n + 4], words[n + 5], words[n + 6] = place.cards, place.sharing, place.most
  end
  return table.concat(words, " ")
end

--- What is known of a place: answers by kind and dtype, and by bytes.
local function place_of(self, topology)
  local place = self.of_topology[topology]
  if place then return place end
  local key = place_key(topology)
  place = self.places[key]
  if not place then
    place = { topology = { nodes = topology.nodes, gpus_per_node = topology.gpus_per_node, ranks = topology.ranks,
      groups_per_node = topology.groups_per_node, tiers = topology.tiers }, answers = {} }
    self.places[key] = place
  end
  self.of_topology[topology] = place
  return place
end

--- Times of a kind of collective in a place, of any number of bytes: those of the links where the profile has none.
local function timer_of(self, kind, topology, dtype)
  local profile, own, links = self.profile, nil, nil
  if profile and profile.collective_timer then
    own = profile:collective_timer(kind, topology, dtype)
  elseif profile then
    own = function(bytes) return profile:collective(kind, bytes, topology, dtype) end
  end
  return function(bytes)
    local answer = own and own(bytes)
    if answer then return answer end
    links = links or require("ett.profile.cluster").collective_timer(self.cluster, kind, topology)
    return links(bytes)
  end
end

--- Seconds of one collective; `bytes` of the whole buffer (nccl-tests' convention).
---@param topology table nodes, gpus_per_node; ranks, where they are not the product of both; it does not change
function Times:collective(kind, bytes, topology, dtype)
  local place = place_of(self, topology)
  local id = kind .. " " .. dtype
  local known = place.answers[id]
  if not known then
    known = { timer = timer_of(self, kind, place.topology, dtype) }
    place.answers[id] = known
  end
  local answer = known[bytes]
  if not answer then
    answer = uneven(check(known.timer(bytes), kind), kind, topology)
    answer = shared(answer, kind, bytes, topology, self.cluster)
    known[bytes] = answer
  end
  return answer
end

--- Seconds of one demand (runtime/step/demand.h): a message, or an update of { parameters, layers, place = "first" |
--- "middle" | "last" }.
---@param dtype string of weights and activations
---@param hidden integer width of the model
function Times:of_demand(d, dtype, hidden)
  if d.kind ~= "optimizer" then
    return self:collective(d.kind, d.bytes, d.topology, d.element_bytes == 4 and "fp32" or dtype)
  end
  local op = require("ett.operator").get(update_operators[d.place])
  return self:operator(op, { params = math.max(1, math.tointeger(d.parameters) or math.floor(d.parameters)),
    layers = math.max(1, d.layers), hidden = hidden }, dtype, "update")
end

--- Sets the time of everything that is untimed in `demands` (ett.step).
function Times:answer(demands, dtype, hidden)
  for _, d in ipairs(demands:untimed()) do
    local answer = self:of_demand(d, dtype, hidden)
    demands:set(d.index, answer.seconds, answer.low_seconds, answer.high_seconds)
  end
end

--- Half-width of the interval, as a share of the step, of what composing kernels into a step leaves out; 0 where the
--- times come from samples of the cluster.
---@param shares table of ett.step.spread
---@param p table plan
function Times:step_spread(shares, p)
  local named = p.stack ~= nil or self.stack ~= nil
  return self.profile and self.profile.step_spread and self.profile:step_spread(shares, p.dtype, named) or 0.0
end

--- The same times under a stack: its kernels and launches.
---@param name string|table|nil of lua/stacks, or a stack; nil: these
function Times:for_stack(name)
  if not name then return self end
  local known = self.stacks[name]
  if not known then
    local stack = type(name) == "table" and name or stacks.get(name)
    local profile = self.profile and self.profile.with_stack and self.profile:with_stack(stack) or self.profile
    known = times.new(self.cluster, profile or false)
    known.stack = stack
    self.stacks[name] = known
  end
  return known
end

-- Times on a cluster of parts. Operators and the messages of a group are timed on a part, `parts[k]`.
local OfParts = { answer = Times.answer }
OfParts.__index = OfParts

--- Seconds of a demand that the devices of several parts take part in: the slowest part's, and of messages at least
--- those of the network that joins the parts.
function OfParts:of_demand(d, dtype, hidden)
  local slowest, met = nil, 0
  local function take(answer)
    if not slowest or answer.seconds > slowest.seconds then slowest = answer end
  end
  for k, own in ipairs(self.parts) do
    if (d.parts or -1) >> k - 1 & 1 == 1 then
      take(own:of_demand(d, dtype, hidden))
      met = met + 1
    end
  end
  if met > 1 and d.kind ~= "optimizer" and d.topology.nodes > 1 then
    take(check(require("ett.profile.cluster").collective(self.cluster, d.kind, d.bytes,
      d.topology), d.kind))
  end
  return slowest
end

-- One kernel or message is timed on a part.
local function refuse(self) require("ett.profile.network.parts").refuse(self.cluster, "a time of its own") end
OfParts.operator, OfParts.collective = refuse, refuse

function OfParts:step_spread(shares, p)
  local most = 0.0
  for _, own in ipairs(self.parts) do most = math.max(most, own:step_spread(shares, p)) end
  return most
end

--- The same with each part's times changed.
---@param change function(times)
function OfParts:with(change)
  local list = {}
  for k, own in ipairs(self.parts) do list[k] = change(own) end
  return setmetatable({ cluster = self.cluster, parts = list }, OfParts)
end

function OfParts:for_stack(name)
  return name and self:with(function(own) return own:for_stack(name) end) or self
end

---@param cluster table from ett.cluster
---@param profile table? with operator() and collective(); nil: the cluster's own, false: assumptions only
function times.new(cluster, profile)
  if cluster.parts then
    if profile then error_module.raise("argument", "a profile needs a cluster of one kind of nodes") end
    local own = { cluster = cluster, parts = cluster.parts }
    return OfParts.with(own, function(part) return times.new(part, profile) end)
  end
  if profile == nil then profile = require("ett.profile.of_cluster").open(cluster) end
  return setmetatable({ cluster = cluster, profile = profile or nil, places = {}, stacks = {},
    of_topology = setmetatable({}, { __mode = "k" }),
    operators = { forward = {}, backward = {}, update = {} } }, Times)
end

return times

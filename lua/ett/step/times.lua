--- Times of operators, messages and updates: cached answers of a profile, and assumed times if it has none
--- (ett.profile.assumed).
---
---   local times = require("ett.step.times").new(cluster, profile)
---   times:operator(op, shape, "bf16", "forward") -> { seconds, low_seconds, high_seconds, provenance, detail }
local assumed = require "ett.profile.assumed"
local comm = require "ett.comm"
local error_module = require "ett.base.error"
local merged = require "ett.base.merged"
local operator = require "ett.operator"
local plan_fields = require "ett.plan.fields"
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"
local step_core = require "ett.step"
local table_at = require "ett.base.table_at"

local huge, pack, unpack = math.huge, string.pack, table.unpack

local times = {}
-- node_gain: by this factor the links of a node are faster (ett.step.faster).
local Times = { node_gain = 1.0 }
Times.__index = Times

--- From best to worst; a line that combines several answers shows the worst.
times.provenances = { "measured", "interpolated", "calibrated", "extrapolated", "assumed" }
local rank = {}
for i, name in ipairs(times.provenances) do rank[name] = i end

--- The less certain of two provenances.
function times.worse(a, b)
  if a == nil or b == nil then return a or b end
  return (rank[a] or #times.provenances) >= (rank[b] or #times.provenances) and a or b
end

local function refuse_time(seconds, name, pass)
  error_module.raise("model", "the profile's time of %s must be finite and at least 0, got %s",
    pass and ("%s (%s)"):format(name, pass) or name, schema.describe(seconds))
end

-- Whether three values are a time and its interval.
local is_usual = step_core.is_time

--- Checks a time and its interval. name, pass: for messages.
local function check(s, low, high, name, pass)
  if type(s) ~= "number" or not (s >= 0 and s < huge) then refuse_time(s, name, pass) end
  return s, type(low) == "number" and low >= 0 and low <= s and low or s,
    type(high) == "number" and high >= s and high < huge and high or s
end

-- Checks an answer. A user's profile may give the same one again, so values change in a copy.
local function checked(answer, name, pass)
  if not answer or is_usual(answer.seconds, answer.low_seconds, answer.high_seconds) then return answer end
  local s, low, high = check(answer.seconds, answer.low_seconds, answer.high_seconds, name, pass)
  return setmetatable({ seconds = s, low_seconds = low, high_seconds = high }, { __index = answer })
end

local sorted_fields = setmetatable({}, { __mode = "k" })

--- A key of a shape: equal shapes give equal strings. Integers are packed, which takes less time than text.
function times.shape_key(op, shape)
  local fields = sorted_fields[op]
  if not fields then
    fields = schema.keys(op.schema)
    sorted_fields[op] = fields
  end
  local packed = step_core.shape_key(fields, shape)
  if packed then return packed end
  local values = {}
  for i, name in ipairs(fields) do values[i] = tostring(shape[name]) end
  return table.concat(values, " ")
end

-- Pipeline stages have their own update kernels. If the answer for a stage's kernel is missing or only assumed, the
-- answer for the whole model's update, `optimizer`, is used.
local update_operators = { first = "first_stage_optimizer", middle = "middle_stage_optimizer",
  last = "last_stage_optimizer" }

-- A function of shapes: the profile's answers for an operator.
local function timer_of_operator(profile, name, dtype, pass)
  if not profile then return nil end
  if profile.operator_timer then return profile:operator_timer(name, dtype, pass) end
  return function(shape) return checked(profile:operator(name, shape, dtype, pass), name, pass) end
end

local function sampled_timer(profile, name, dtype, pass)
  local time = timer_of_operator(profile, name, dtype, pass)
  if pass ~= "update" or not time then return time end
  local whole_time
  return function(shape)
    local answer = time(shape)
    if answer and answer.provenance ~= "assumed" then return answer end
    whole_time = whole_time or timer_of_operator(profile, "optimizer", dtype, pass)
    local whole = whole_time(shape)
    return whole and (not answer or whole.provenance ~= "assumed") and whole or answer
  end
end

-- The cached answers of an operator by shape, and the function that computes them. Data types of plans in which the
-- operator runs in the same type share them.
---@param dtype string of the plan
local function known_of(self, op, dtype, pass)
  local by_dtype, own = table_at(self.operators[pass], op), stacks.dtype_of(self.stack, op, dtype)
  local known = by_dtype[own]
  if not known then
    known = { answers = {}, dtype = own, time = sampled_timer(self.profile, op.name, own, pass) }
    by_dtype[own] = known
  end
  by_dtype[dtype] = known
  return known
end

local function timed(self, known, op, shape, pass, key)
  local time = known.time
  local answer = time and time(shape, key) or assumed.operator(self.cluster, op, shape, known.dtype, pass, nil,
    self.stack and self.stack.update == "foreach")
  return checked(answer, op.name, pass)
end

--- Seconds of one run of an operator.
---@param op table from ett.operator
---@param pass string "forward", "backward" or "update"
---@param key string|false|nil times.shape_key, if the caller has it; false: the answer is not cached
function Times:operator(op, shape, dtype, pass, key)
  local by_dtype = self.operators[pass][op]
  local known = by_dtype and by_dtype[dtype] or known_of(self, op, dtype, pass)
  if key == false then return timed(self, known, op, shape, pass) end
  key = key or times.shape_key(op, shape)
  local answer = known.answers[key]
  if not answer then
    answer = timed(self, known, op, shape, pass, key)
    known.answers[key] = answer
  end
  return answer
end

--- The time of a group with unequal numbers of ranks per node (gpus_per_node is the smallest), divided by the time of
--- an equal distribution. It is the ratio of the bytes that a rank moves, or for all_to_all of the bytes that leave the
--- node. 1 for equal nodes.
local function uneven(kind, topology)
  local n, inside, ranks = topology.nodes, topology.gpus_per_node, topology.ranks
  if not ranks or ranks == n * inside then return 1 end
  if kind == "all_to_all" then return (1 - inside / ranks) / (1 - 1 / n) end
  return comm.factor(kind, ranks) / comm.factor(kind, n * inside)
end

--- Inputs of a lower bound for messages of several groups that leave a node at the same time. The bound in seconds is
--- bytes * share * groups / bandwidth.
---@return number|nil share; nil for single messages
---@return number|nil groups
---@return number|nil bandwidth
local function network_share(kind, topology, cluster)
  local inter = cluster.links and cluster.links.inter
  local place = topology.tiers and topology.tiers[(cluster.node_tier or 1) + 1]
  if topology.nodes < 2 or not (place and inter) then return nil end
  local groups = place.groups
  if kind == "send_recv" then
    local bandwidth = inter.send_bandwidth_per_node or inter.bandwidth_per_node
    return 1, groups, bandwidth
  end
  if groups < 2 then return nil end
  local share, bandwidth = comm.factor(kind, topology.ranks), inter.bandwidth_per_node
  if kind == "all_to_all" then share = place.members * (topology.ranks - place.most) / topology.ranks end
  return share, groups, bandwidth
end

--- A key of a topology: equal placements give equal strings.
local function place_key(topology)
  local words = { topology.nodes, topology.gpus_per_node, topology.ranks or 0, topology.groups_per_node or 0,
    topology.forwarded and 1 or 0 }
  for _, place in ipairs(topology.tiers or {}) do
    local n = #words
    words[n + 1], words[n + 2], words[n + 3] = place.units, place.members, place.groups
    words[n + 4], words[n + 5], words[n + 6] = place.cards, place.sharing, place.most
    words[n + 7], words[n + 8] = place.branches or 0, place.inside or 0
    words[n + 9], words[n + 10] = place.placed or 0, place.slice or 0
    for j, ranks in ipairs(place.along or {}) do words[n + 9 + 2 * j], words[n + 10 + 2 * j] = ranks, place.apart[j] end
  end
  return pack(("n"):rep(#words), unpack(words))
end

--- The cached data of a placement, by kind and dtype.
local function place_of(self, topology)
  local key = place_key(topology)
  local place = self.places[key]
  if not place then
    place = { topology = { nodes = topology.nodes, gpus_per_node = topology.gpus_per_node, ranks = topology.ranks,
      groups_per_node = topology.groups_per_node, forwarded = topology.forwarded, tiers = topology.tiers }, kinds = {} }
    self.places[key] = place
  end
  self.of_topology[topology] = place
  return place
end

--- Timer of a kind of collective in a placement, for any number of bytes; from the links if the profile has no answer.
---@return function, function|nil function(): the law of the times, and data for C (Profile:collective_timer)
local function timer_of(self, kind, topology, dtype)
  local profile, own, links, law = self.profile, nil, nil, nil
  if profile and profile.collective_timer then
    own, law = profile:collective_timer(kind, topology, dtype)
    law = type(law) == "function" and law or nil -- otherwise the reason why samples are void
  elseif profile then
    own = function(bytes) return profile:collective(kind, bytes, topology, dtype) end
  end
  local ratio, share, groups, bandwidth = uneven(kind, topology), network_share(kind, topology, self.cluster)
  return function(bytes)
    local answer = own and own(bytes)
    if not answer then
      links = links or require("ett.profile.cluster").collective_timer(self.cluster, kind, topology)
      answer = links(bytes)
    end
    local seconds, low, high = answer.seconds, answer.low_seconds, answer.high_seconds
    if not is_usual(seconds, low, high) then seconds, low, high = check(seconds, low, high, kind) end
    local words, placed = answer.detail, answer.sharing == "placed"
    if ratio ~= 1 and not placed then seconds, low, high = ratio * seconds, ratio * low, ratio * high end
    local least = share and not answer.sharing and bytes * share * groups / bandwidth
    if least and seconds < least then
      local slower = seconds > 0 and least / seconds
      low, high = slower and slower * low or least, slower and slower * high or least
      seconds = least
      words = { "%d groups share the node's network; %s",
        topology.tiers[(self.cluster.node_tier or 1) + 1].groups, words or "" }
    end
    return { seconds = seconds, low_seconds = low, high_seconds = high, provenance = answer.provenance, detail = words,
      outside = answer.outside, model = answer.model }
  end, law and function()
    local own_law, compiled = law()
    if compiled then
      if ratio ~= 1 then return nil end
      compiled.share, compiled.groups, compiled.bandwidth = share, groups, bandwidth
    end
    return own_law, compiled
  end
end

-- The cached data of a kind of collective in a placement: its timer, the function that returns its law (nil: none), and
-- answers by bytes.
local function collective_of(self, kind, topology, dtype)
  local place = self.of_topology[topology] or place_of(self, topology)
  local by_dtype = table_at(place.kinds, kind)
  local known = by_dtype[dtype]
  if not known then
    known = { answers = {} }
    known.timer, known.find_law = timer_of(self, kind, place.topology, dtype)
    by_dtype[dtype] = known
  end
  return known
end

--- Seconds of one collective; `bytes` of the whole buffer (nccl-tests' convention).
---@param topology table { nodes, gpus_per_node, ranks (default: their product) }; the caller must not change it
function Times:collective(kind, bytes, topology, dtype)
  local known = collective_of(self, kind, topology, dtype)
  local answer = known.answers[bytes]
  if not answer then
    answer = known.timer(bytes)
    known.answers[bytes] = answer
  end
  return answer
end

-- An answer as multiple values: seconds, their interval, provenance, detail, model of communication.
local function values_of(answer)
  return answer.seconds, answer.low_seconds, answer.high_seconds, answer.provenance, answer.detail, answer.model
end

--- The time of one demand, as values_of gives it. Updates are distinct, so their times are not stored.
---@param d table of demands:get (runtime/step/demand.h)
---@param dtype string of weights and activations
---@param hidden integer width of the model
function Times:of_demand(d, dtype, hidden)
  if d.kind ~= "optimizer" then
    return values_of(self:collective(d.kind, d.bytes, d.topology, d.element_bytes == 4 and "fp32" or dtype))
  end
  local shape = { params = math.max(math.floor(d.parameters), 1), layers = math.max(d.layers, 1), hidden = hidden }
  return values_of(self:operator(operator.get(update_operators[d.place]), shape, dtype, "update", false))
end

local function set_time(demands, index, seconds, low, high) demands:set(index, seconds, low, high) end

-- Sets the time of one message, or of all messages of its kind and placement if they follow a law or a regressor.
local function answer_message(demands, index, amount, known)
  local law, compiled
  if known.find_law then law, compiled = known.find_law() end
  -- A regressor that could not time a message before is not tried again.
  if law and not (compiled and known.priced and known.priced[demands]) then
    if compiled then
      known.priced = known.priced or setmetatable({}, { __mode = "k" })
      known.priced[demands] = true
    end
    if demands:price(index, law, compiled) then return end
  end
  set_time(demands, index, values_of(known.timer(amount)))
end

-- Gives C the regressor for the updates of first, middle or last stages. Returns false if there is none.
local function price_updates(self, demands, where, dtype, hidden)
  local profile, op = self.profile, operator.get(update_operators[where])
  local tried = self.priced_updates[demands] or {}
  self.priced_updates[demands] = tried
  if tried[where] or self.operator ~= Times.operator or not (profile and profile.updates_compiled) then return false end
  tried[where] = true
  local compiled = profile:updates_compiled(op, stacks.dtype_of(self.stack, op, dtype))
  if not compiled then return false end
  compiled.hidden = hidden
  demands:price_updates(where, compiled)
  return true
end

-- demands (ett.step) -> index -> the error that timing it raised
local faults_of = setmetatable({}, { __mode = "k" })

--- Kinds of errors that refuse a plan; others, such as an interrupt, end a sweep.
times.refuses = { plan = true, model = true, argument = true, limit = true }

-- Calls set(index, …) for each demand without a time. A demand whose timing raised an error is not timed again, and
-- plans that do not need it continue. The error is raised if nothing else was timed, or if `all` demands are needed.
local function answer_each(demands, all, set)
  local faults, answered, first = faults_of[demands] or {}, false, nil
  local function visit(index, ...)
    if not index then return nil end
    local fault = faults[index]
    if not fault then
      local ok, raised = pcall(set, index, ...)
      if not ok and (all or not times.refuses[error_module.from(raised).kind]) then error(raised, 0) end
      answered, fault = answered or ok, not ok and raised or nil
      if fault then faults[index], faults_of[demands] = fault, faults end
    end
    first = first or fault
    return index
  end
  local index = 0
  repeat index = visit(demands:untimed_after(index)) until not index
  if first and not answered then error(first, 0) end
end

--- Times all demands without a time (ett.step). Raises if nothing can be timed.
---@param keep boolean? whether of_demand will be called again for messages; then every demand needs a time
function Times:answer(demands, dtype, hidden, keep)
  answer_each(demands, keep, function(index, kind, amount, where, element_bytes)
    if kind == "optimizer" and not keep and price_updates(self, demands, where, dtype, hidden)
      and demands:get(index).seconds then return end
    if keep or kind == "optimizer" then
      set_time(demands, index, self:of_demand(demands:get(index), dtype, hidden))
    else
      answer_message(demands, index, amount, collective_of(self, kind, where, element_bytes == 4 and "fp32" or dtype))
    end
  end)
end

--- Half-width of the composition error's interval, as a share of the step, and the share that counts only above; 0 if
--- the times come from samples of the cluster. Third: reasons for a wide interval. Fourth: whether `recipe` matters.
---@param shares table of ett.step.spread
---@param p table plan
function Times:step_spread(shares, p)
  if not (self.profile and self.profile.step_spread) then return 0.0, 0.0, {}, false end
  return self.profile:step_spread(shares, p, self.stack or self:for_stack(p.stack).stack or stacks.get "plain")
end

--- The same times for another stack, with its kernels and launches.
---@param name string|table|nil of lua/stacks, or a stack; nil: these times
function Times:for_stack(name)
  if not name then return self end
  local known = self.stacks[name]
  if not known then
    local stack, device = type(name) == "table" and name or stacks.get(name), self.cluster.device
    -- The links of TPUs have engines of their own; the shares are those of NCCL's and RCCL's kernels.
    local is_stated = type(name) == "string" and name:find("communication_share=", 1, true)
    if device and device.generation == "tpu" and not is_stated then
      stack = merged(stack, { communication_share = 0.0, exchange_communication_share = 0.0 })
    end
    local profile = self.profile and self.profile.with_stack and self.profile:with_stack(stack) or self.profile
    known = times.new(self.cluster, profile or false)
    known.stack = stack
    self.stacks[name] = known
  end
  return known
end

-- Whether two stacks differ at most in CUDA graphs and in the kernel of attention. A graph of the step also changes
-- kernels (stacks.capture).
local function has_same_kernels(a, b)
  local apart = { name = true, attention = true, graphs = true, graphed = true }
  for field in pairs(merged(a, b)) do
    if a[field] ~= b[field] and not apart[field] then return false end
  end
  return true
end

--- Takes the answers for messages from times whose stack differs in CUDA graphs or in the kernel of attention. Takes
--- those for operators without attention, too, unless the stacks have other kernels for them.
function Times:share(other)
  for pass, of_pass in pairs(has_same_kernels(self.stack, other.stack) and other.operators or {}) do
    for op, by_dtype in pairs(of_pass) do
      local own = self.operators[pass]
      own[op] = own[op] or op.family ~= "attention" and by_dtype or nil
    end
  end
  self.places, self.of_topology = other.places, other.of_topology
end

--- The same times for a plan: for its stack, and without the slowdown by gathers of weights if it has none.
---@param p table a clean plan
function Times:of_plan(p)
  local own = self:for_stack(p.stack)
  if not (own.stack and own.stack.gathers_slow) or plan_fields.gathers_weights(p) then return own end
  local apart = rawget(own, "apart") -- a view of times has its own
  if not apart then
    apart = own:for_stack(merged(own.stack, { gathers_slow = false }))
    own.apart = apart
  end
  return apart
end

-- Times on a cluster with parts. Operators and the messages of a group are timed on one part, `parts[k]`.
-- network_gain: by this factor the network between the parts is faster (ett.step.faster).
local OfParts = { network_gain = 1.0 }
OfParts.__index = OfParts

function OfParts:answer(demands, dtype, hidden, keep)
  answer_each(demands, keep, function(index)
    set_time(demands, index, self:of_demand(demands:get(index), dtype, hidden))
  end)
end

--- Seconds of a demand in which several parts participate: the time of the slowest part; for messages at least the time
--- of the network between the parts.
function OfParts:of_demand(d, dtype, hidden)
  local parts = d.parts or -1 -- bits; nil: all
  local met, slowest, low, high, provenance, model = 0, nil, nil, nil, nil, nil
  local function take(seconds, own_low, own_high, from, _, name)
    if not slowest or seconds > slowest then
      slowest, low, high, provenance, model = seconds, own_low, own_high, from, name
    end
  end
  for k, own in ipairs(self.parts) do
    if parts >> k - 1 & 1 == 1 then
      take(own:of_demand(d, dtype, hidden))
      met = met + 1
    end
  end
  if met > 1 and d.kind ~= "optimizer" and d.topology.nodes > 1 then
    local answer = require("ett.profile.cluster").collective_timer(self.cluster, d.kind, d.topology)(d.bytes)
    take(answer.seconds / self.network_gain, answer.low_seconds / self.network_gain,
      answer.high_seconds / self.network_gain, answer.provenance, nil, answer.model)
  end
  return slowest, low, high, provenance, nil, model
end

-- Raises an error: a kernel or message needs a single part.
local function refuse(self) require("ett.profile.network.parts").refuse(self.cluster, "a time of its own") end
OfParts.operator, OfParts.collective = refuse, refuse

function OfParts:step_spread(shares, p)
  local most, most_above, reasons, is_known = 0.0, 0.0, {}, false
  for _, own in ipairs(self.parts) do
    local share, above, list, known = own:step_spread(shares, p)
    most, most_above = math.max(most, share), math.max(most_above, above)
    is_known = is_known or known
    for _, reason in ipairs(list) do reasons[reason] = true end
  end
  return most, most_above, schema.keys(reasons), is_known
end

--- The same with changed times of each part.
---@param change function(times)
function OfParts:with(change)
  local list = {}
  for k, own in ipairs(self.parts) do list[k] = change(own) end
  return setmetatable({ cluster = self.cluster, parts = list, network_gain = self.network_gain,
    kept = setmetatable({}, { __mode = "k" }) }, OfParts)
end

-- The same for another stack or plan, kept by the times of the first part; these determine the times of the others.
local function kept_with(self, change)
  local first = change(self.parts[1])
  if first == self.parts[1] then return self end
  local known = self.kept[first]
  if not known then
    known = self:with(change)
    self.kept[first] = known
  end
  return known
end

function OfParts:of_plan(p) return kept_with(self, function(own) return own:of_plan(p) end) end

function OfParts:share(other)
  for k, own in ipairs(self.parts) do own:share(other.parts[k]) end
end

function OfParts:for_stack(name)
  return kept_with(self, function(own) return own:for_stack(name) end)
end

---@param cluster table from ett.cluster
---@param profile table? with operator() and collective(); nil: the cluster's own, false: only assumptions
function times.new(cluster, profile)
  if cluster.parts then
    if profile then error_module.raise("argument", "a profile needs a cluster of one kind of nodes") end
    local own = { cluster = cluster, parts = cluster.parts }
    return OfParts.with(own, function(part) return times.new(part, profile) end)
  end
  if profile == nil then profile = require("ett.profile.of_cluster").open(cluster) end
  return setmetatable({ cluster = cluster, profile = profile or nil, places = {}, stacks = {},
    priced_updates = setmetatable({}, { __mode = "k" }),
    of_topology = setmetatable({}, { __mode = "k" }),
    operators = { forward = {}, backward = {}, update = {} } }, Times)
end

return times

--- Times of operators, messages and updates: a profile's answers, each asked for once, and
--- where it has none an assumption from the device's rates, marked as such.
--
--   local times = lower_times.new(cluster, profile)
--   times:operator(op, shape, "bf16", "forward") -> { seconds, low_seconds, high_seconds, provenance, detail }
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local lower_times = {}
local Times = {}
Times.__index = Times

--- From best to worst; a line that joins several answers shows the worst.
lower_times.provenances = { "measured", "interpolated", "calibrated", "extrapolated", "assumed" }
local rank = {}
for i, name in ipairs(lower_times.provenances) do rank[name] = i end

--- The less certain of two provenances.
function lower_times.worse(a, b)
  if a == nil or b == nil then return a or b end
  return (rank[a] or #lower_times.provenances) >= (rank[b] or #lower_times.provenances) and a or b
end

-- Share of a peak that is assumed to be reached, and how far off an assumption may be (a factor, as the ends of its
-- interval).
local assumed_compute, assumed_factor = 0.6, 1.6
local launch_seconds = 5e-6

local function assumption(seconds, detail)
  return { seconds = seconds, low_seconds = seconds / assumed_factor, high_seconds = seconds * assumed_factor,
    provenance = "assumed", detail = detail }
end

--- FLOP/s that an operator is assumed to reach, or nil. A plain product reaches what one was measured to reach: of the
--- device's sustained rate the large sampled ones reach 0.93 to 1.02 at the median; batched ones and attention do not.
local function flop_rate(device, family, dtype)
  local reached = family == "gemm" and (device.measured_flops and device.measured_flops[dtype]
    or device.probed and device.peak_flops[dtype])
  if reached then return reached end
  local products = family == "gemm" or family == "bmm" or family == "attention"
  local peak = products and device.peak_flops[dtype] or device.peak_flops.fp32 or device.peak_flops[dtype]
  return peak and peak * assumed_compute
end

--- A roofline over the device's rates (Williams et al. 2009).
local function roofline(cluster, op, shape, dtype, pass)
  local flops, bytes = op.flops(shape, pass), op.bytes(shape, dtype, pass)
  local device = cluster.device
  local rate = flop_rate(device, op.family, dtype)
  if not rate then
    error_module.raise("missing", "cluster %s: device %s states no peak rate for %s", cluster.name, device.name, dtype)
  end
  local bandwidth = require("ett.profile.cluster").stream_bandwidth(device)
  return assumption(math.max(flops / rate, bytes / bandwidth) + launch_seconds, "roofline of the device's rates")
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
function lower_times.shape_key(op, shape)
  local fields = sorted_fields[op]
  if not fields then
    fields = schema.keys(op.schema)
    sorted_fields[op] = fields
  end
  local words = {}
  for i = 1, #fields do words[i] = tostring(shape[fields[i]]) end
  return table.concat(words, " ")
end

--- Seconds of one run of an operator.
---@param op table from ett.operator
---@param shape table
---@param dtype string
---@param pass string "forward", "backward" or "update"
---@param key string? lower_times.shape_key, when the caller has it
function Times:operator(op, shape, dtype, pass, key)
  local known = self.operators[pass]
  local id = op.name .. " " .. dtype .. " " .. (key or lower_times.shape_key(op, shape))
  local answer = known[id]
  if not answer then
    answer = self.profile and self.profile:operator(op.name, shape, dtype, pass)
      or roofline(self.cluster, op, shape, dtype, pass)
    known[id] = check(answer, ("%s (%s)"):format(op.name, pass))
  end
  return answer
end

--- Seconds of one collective; `bytes` of the whole buffer (nccl-tests' convention).
---@param topology table nodes, gpus_per_node
function Times:collective(kind, bytes, topology, dtype)
  local id = ("%s %.17g %d %d %s"):format(kind, bytes, topology.nodes, topology.gpus_per_node, dtype)
  local answer = self.collectives[id]
  if not answer then
    answer = self:ask_collective(kind, bytes, topology, dtype)
    self.collectives[id] = answer
  end
  return answer
end

--- The same without memory.
function Times:ask_collective(kind, bytes, topology, dtype)
  return check(self.profile and self.profile:collective(kind, bytes, topology, dtype)
    or require("ett.profile.cluster").collective(self.cluster, kind, bytes, topology), kind)
end

local update_operators = { first = "first_stage_optimizer", middle = "middle_stage_optimizer",
  last = "last_stage_optimizer" }

-- The stage's own answer unless it is only assumed and one of the whole model's update is not: a profile of a
-- cluster answers what it streams for a stage that nobody sampled.
local function sampled_update(profile, op, shape, dtype)
  local stage = profile and profile:operator(op.name, shape, dtype, "update")
  if not profile or stage and stage.provenance ~= "assumed" then return stage end
  local whole = profile:operator("optimizer", shape, dtype, "update")
  return whole and (not stage or whole.provenance ~= "assumed") and whole or stage
end

--- Seconds of one optimizer update: the fused kernel's of a pipeline stage (what its sample
--- files hold), else whatever a profile has for the operator `optimizer`.
---@param d table { parameters, layers, place = "first" | "middle" | "last" }
---@param hidden integer width of the model
function Times:update(d, dtype, hidden)
  local operator = require "ett.operator"
  local op = operator.get(update_operators[d.place])
  local shape = { params = math.max(1, math.tointeger(d.parameters) or math.floor(d.parameters)),
    layers = math.max(1, d.layers), hidden = hidden }
  local key = lower_times.shape_key(op, shape)
  local known = self.operators.update
  local id = op.name .. " " .. dtype .. " " .. key
  local answer = known[id]
  if not answer then
    answer = sampled_update(self.profile, op, shape, dtype) or roofline(self.cluster, op, shape, dtype, "update")
    known[id] = check(answer, op.name)
  end
  return answer
end

--- Answers everything that is untimed in `demands` (ett.step).
---@param dtype string of weights and activations
---@param hidden integer width of the model
function Times:answer(demands, dtype, hidden)
  for _, d in ipairs(demands:untimed()) do
    local answer
    if d.kind == "optimizer" then
      answer = self:update(d, dtype, hidden)
    else
      answer = self:ask_collective(d.kind, d.bytes, d, d.element_bytes == 4 and "fp32" or dtype)
    end
    demands:set(d.index, answer.seconds, answer.low_seconds, answer.high_seconds)
  end
end

--- What was answered for a demand.
function Times:of_demand(d, dtype, hidden)
  if d.kind == "optimizer" then return self:update(d, dtype, hidden) end
  return self:collective(d.kind, d.bytes, d, d.element_bytes == 4 and "fp32" or dtype)
end

---@param cluster table from ett.cluster
---@param profile table? with operator() and collective(); nil: the cluster's own, false: assumptions only
function lower_times.new(cluster, profile)
  if profile == nil then profile = require("ett.profile.of_cluster").open(cluster) end
  return setmetatable({ cluster = cluster, profile = profile or nil, collectives = {},
    operators = { forward = {}, backward = {}, update = {} } }, Times)
end

return lower_times

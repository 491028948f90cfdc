--- A profile for the ranks of a layout. It predicts the steps of `ett validate`.
--
-- Operators are sampled twice, on operands that rotate through few bytes and through many. A step lies between the two
-- (ett.validate.caches). The host's time for the call is added. Ranks that share a processor never leave it idle while
-- one of them has work. So a step lasts the sum of their processor times (processor sharing, Kleinrock 1967). A
-- collective adds the time that ett.validate.wires sampled after as much computation.
local caches = require "ett.validate.caches"
local sample = require "ett.sample"

local view_module = {}
-- The products accumulate into the gradients; launching is counted by operator.
local View = { plan = { dtype = "fp32", fused_accumulation = true }, launch_seconds = 0.0 }
View.__index = View

--- Bytes through which the operands of the two campaigns rotate: more than private caches hold, and more than all
--- caches hold.
view_module.near_bytes, view_module.far_bytes = 4 << 20, 96 << 20

-- A cost is divided by this before its logarithm is fitted; the surface learns the level.
local function scale(bytes) return bytes / 5e9 + 2e-6 end
local least_seconds = 2e-7 -- noise can make a sample negative

--- The answer of a profile with its three times changed.
local function changed(answer, change)
  return { seconds = change(answer.seconds), low_seconds = change(answer.low_seconds),
    high_seconds = change(answer.high_seconds), provenance = answer.provenance, detail = answer.detail }
end
view_module.changed = changed

--- A view of operator profiles under a layout.
---@param near table ett.profile of operands that rotate through view_module.near_bytes
---@param far table of those that rotate through view_module.far_bytes
---@param given table share (ranks on the fullest processor), host (of ett.validate.cpu.host_seconds), retention (of
--- Retention:curve; View:expect needs it), tp, rows (of ett.validate.wires)
function view_module.new(near, far, given)
  local self = setmetatable({ near = near, far = far, retention = given.retention,
    reuse = function() return 1.0 end, host = given.host,
    share = given.share or 1, tp = given.tp, wires = {}, stretch = {} }, View)
  for _, row in ipairs(given.rows or {}) do
    local key = row.group .. " " .. row.kind
    local wire = self.wires[key] or { x = {}, y = {}, low = math.huge, high = 0.0 }
    self.wires[key] = wire
    local bytes = 4.0 * row.elements
    wire.x[#wire.x + 1], wire.x[#wire.x + 2] = math.log(bytes), math.log(row.stretch)
    wire.y[#wire.y + 1] = math.log(math.max(row.seconds, least_seconds) / scale(bytes))
    wire.low, wire.high = math.min(wire.low, row.stretch), math.max(wire.high, row.stretch)
  end
  return self
end

--- Sets the case whose steps are predicted next.
---@param case table of validate.case
function View:expect(case)
  local curve = self.retention
  self.reuse = caches.reuse(case, function(bytes) return caches.farness(curve, bytes) end)
end

--- Processor seconds of one run on one rank, as recorded by ett.validate.cpu: the call and the kernel.
function View:alone(name, shape, dtype, pass)
  local far = self.far:operator(name, shape, dtype, pass)
  if not far then return nil end
  local near = self.near:operator(name, shape, dtype, pass) or far
  local at = self.reuse(name, pass)
  local call = self.host.call_seconds
  local function between(field) return call + near[field] * (far[field] / near[field]) ^ at end
  return { seconds = between "seconds", low_seconds = between "low_seconds", high_seconds = between "high_seconds",
    provenance = far.provenance, detail = far.detail }
end

--- Seconds that one run of an operator adds to a step of the layout.
function View:operator(name, shape, dtype, pass)
  local answer = self:alone(name, shape, dtype, pass)
  if not answer then return nil end
  local calling = self.host.operator_seconds
  if pass == "forward" and (name ~= "cross_entropy" or self.tp > 1) then
    calling = calling + (self.host.token_seconds[name] or 0.0) * (shape.tokens or 0)
  end
  return changed(answer, function(seconds) return (seconds + calling) * self.share end)
end

local function surface(wire)
  if not wire.surface then wire.surface = assert(sample.surface(wire.x, 2, wire.y)) end
  return wire.surface
end

--- Seconds that a collective of a group adds to a step.
---@param group string "tp", "dp" or "pp"
function View:added(group, kind, bytes)
  local wire = self.wires[group .. " " .. kind]
  if not wire then return nil end
  local stretch = self.stretch
  local before = group == "tp" and bytes == stretch.loss_bytes and stretch.loss or stretch[group] or wire.low
  before = math.min(wire.high, math.max(wire.low, before))
  local value, deviation = surface(wire):predict { math.log(bytes), math.log(before) }
  local seconds, spread = scale(bytes) * math.exp(value), math.exp(1.645 * deviation)
  return { seconds = seconds, low_seconds = seconds / spread, high_seconds = seconds * spread,
    provenance = "interpolated", sharing = "together",
    detail = ("%d samples of %s %s behind %.0f us"):format(#wire.y, group, kind,
      before * 1e6) }
end

--- Answers as ett.profile does. In the cluster that ett.validate makes, the tensor ranks are one node, so a group that
--- spans nodes is data or pipeline parallel.
function View:collective(kind, bytes, topology)
  local group = topology.nodes == 1 and "tp" or kind == "send_recv" and "pp" or "dp"
  if self.silent then return { seconds = 0.0, low_seconds = 0.0, high_seconds = 0.0, provenance = "assumed",
    sharing = "together" } end
  return self:added(group, kind, bytes)
end

--- Leave-one-out errors of each collective.
---@return table[] { name=, points=, median= }
function View:held_out()
  local list = {}
  for _, key in ipairs(require("ett.base.schema").keys(self.wires)) do
    local wire, errors = self.wires[key], {}
    for i, value in ipairs(surface(wire):leave_one_out()) do errors[i] = math.abs(math.exp(value - wire.y[i]) - 1) end
    list[#list + 1] = { name = key, points = #errors, median = sample.stats(errors).median }
  end
  return list
end

return view_module

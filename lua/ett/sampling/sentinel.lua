--- Detects whether other programs slowed memory during a measurement: a fixed piece of work, the probe, is timed
--- between measurements.
--
-- Other programs and other guests of a host slow memory for milliseconds to seconds. A single probe is as noisy as any
-- timing. A measurement's figure is therefore the larger of two values: the median of the last five probes, and the
-- smaller of the two neighbouring probes. The undisturbed time is the fifth percentile of all probes. A measurement is
-- undisturbed if its figure is at most 5 % above it, or up to 10 % if the probes spread that much.
local median = require "ett.base.median"

local sample_sentinel = {}

local Sentinel = {}
Sentinel.__index = Sentinel

local window, undisturbed_quantile = 5, 0.05
local least_limit, most_limit, limit_quantile = 1.05, 1.10, 0.25

--- A row whose visits have a mean ratio above this is marked as disturbed.
sample_sentinel.doubtful = 1.15

--- A sentinel. known: seconds of an undisturbed probe, from an earlier sentinel of this processor.
function sample_sentinel.new(known)
  return setmetatable({ probes = {}, figures = {}, known = known or math.huge, judged = 0 }, Sentinel)
end

function Sentinel:add(seconds) self.probes[#self.probes + 1] = seconds end

--- The median of the last probes.
function Sentinel:last(count)
  return median(table.move(self.probes, math.max(1, #self.probes - count + 1), #self.probes, 1, {}))
end

--- The figure, in seconds, of the measurement between the last two probes.
function Sentinel:figure()
  local n = #self.probes
  local own = math.min(self.probes[n], self.probes[n - 1] or self.probes[n])
  local figure = math.max(self:last(window), own)
  self.figures[#self.figures + 1] = figure
  return figure
end

--- Adds the figure of a visit from an earlier run.
function Sentinel:recall(figure)
  self.probes[#self.probes + 1] = figure
  self.figures[#self.figures + 1] = figure
end

local function quantile(list, q)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  return sorted[math.max(1, math.ceil(q * #sorted))]
end

-- Recomputed after a tenth more probes: sorting after each probe would cost more than probing.
function Sentinel:judge()
  if #self.probes == 0 then -- nothing was measured
    self.base, self.most = self.known, least_limit
    return
  elseif self.judged > 0 and #self.probes < 1.1 * self.judged then
    return
  end
  self.judged = #self.probes
  self.base = math.min(self.known, quantile(self.probes, undisturbed_quantile))
  local spread = #self.figures > 0 and quantile(self.figures, limit_quantile) / self.base or 1
  self.most = math.max(least_limit, math.min(most_limit, spread))
end

--- Seconds of an undisturbed probe.
function Sentinel:undisturbed()
  self:judge()
  return self.base
end

--- A figure relative to an undisturbed probe; 1 is undisturbed.
function Sentinel:ratio(figure)
  self:judge()
  return figure / self.base
end

--- The largest ratio of an undisturbed measurement.
function Sentinel:limit()
  self:judge()
  return self.most
end

--- The visits of a shape that are used: all undisturbed ones, and the least disturbed others up to `least`. A visit
--- that lost its processor or its clock is used only if all did.
---@param visits table[] { disturbed = boolean: lost its processor or its clock, ratio = of the sentinel }
---@param limit number largest ratio of an undisturbed visit
---@param least integer
---@return table[] chosen, integer quiet number of undisturbed visits
function sample_sentinel.choose(visits, limit, least)
  local sound, disturbed = {}, {}
  for _, visit in ipairs(visits) do table.insert(visit.disturbed and disturbed or sound, visit) end
  if #sound == 0 then return disturbed, 0 end
  table.sort(sound, function(a, b) return a.ratio < b.ratio end)
  local quiet = 0
  while sound[quiet + 1] and sound[quiet + 1].ratio <= limit do quiet = quiet + 1 end
  return table.move(sound, 1, math.min(#sound, math.max(quiet, least)), 1, {}), quiet
end

return sample_sentinel

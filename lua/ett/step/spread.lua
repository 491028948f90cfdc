--- The part of a step's interval that its parts' intervals do not cover: the error of composing kernels into a step.
local in_step = require "ett.profile.in_step"
local products = require("ett.operator").products

local spread = {}

--- Shares of a step that its composition error depends on (in_step.step_spread).
---@param lowered table of ett.step.lower
---@param operators table[] lines of an estimate { name, seconds }
---@param collectives table[] lines { name, group, seconds }: exposed time
---@return table of the step: attention, collectives, experts (with their router, exchange and launches), memory (all
--- operators that memory limits). Of the operators' time: borrowed (not from the cluster's own samples), assumed (part
--- of it), and by_rates (from neither samples nor tables)
function spread.shares(lowered, operators, collectives, step)
  local kinds, apart = {}, { host = true, newton_schulz = true }
  local shares = { attention = 0.0, collectives = 0.0, experts = 0.0, memory = 0.0 }
  local all, borrowed, assumed, by_rates = 0.0, 0.0, 0.0, 0.0
  for _, o in ipairs(lowered.operations) do
    kinds[o.name] = o.family == "attention" and "attention"
      or (o.experts or o.family == "router" or o.name == "host") and "experts" or nil
    apart[o.name] = apart[o.name] or products[o.family]
  end
  local function add(kind, line)
    if kind then shares[kind] = shares[kind] + line.seconds / step end
  end
  for _, line in ipairs(operators) do
    add(kinds[line.name], line)
    add(not apart[line.name] and "memory", line)
    if line.provenance_seconds and line.name ~= "host" then -- the update has no such seconds
      local by_facts = line.provenance_seconds.assumed or 0.0
      all, assumed = all + line.seconds, assumed + by_facts
      borrowed = borrowed + by_facts + (line.borrowed_seconds or 0.0)
      by_rates = by_rates + (line.rates_seconds or 0.0)
    end
  end
  for _, line in ipairs(collectives) do
    add(line.name == "all_to_all" and line.group == "ep" and "experts" or "collectives", line)
  end
  local function part(seconds) return all > 0 and math.min(1.0, seconds / all) or 0.0 end
  shares.borrowed, shares.assumed, shares.by_rates = part(borrowed), part(assumed), part(by_rates)
  return shares
end

--- An interval widened by an independent error, whose half-width is `share` of the step; it reaches further above the
--- step than below (in_step.faster, in_step.slower). The share `own_run` of another error counts only above.
function spread.widened(step, low, high, share, own_run)
  local below, above = in_step.faster * share * step, in_step.slower * share * step
  return math.max(0.0, step - math.sqrt((step - low) ^ 2 + below ^ 2)),
    step + math.sqrt((high - step) ^ 2 + above ^ 2 + (own_run * step) ^ 2)
end

--- Whether the two errors of `widened` make at least a tenth of the interval's half-width above the step.
function spread.matters(step, high, share, own_run)
  local above = (in_step.slower * share * step) ^ 2 + (own_run * step) ^ 2
  return math.sqrt(math.max(0.0, (high - step) ^ 2 - above)) < 0.9 * (high - step)
end

--- An interval widened by what a plan leaves open. Each open field is an independent error: the change of the step with
--- the field's other values.
---@param lists number[][] for each open field, the steps with its other values
function spread.opened(step, low, high, lists)
  local below, above = (step - low) ^ 2, (high - step) ^ 2
  for _, list in ipairs(lists) do
    local least, most = step, step
    for _, seconds in ipairs(list) do least, most = math.min(least, seconds), math.max(most, seconds) end
    below, above = below + (step - least) ^ 2, above + (most - step) ^ 2
  end
  return math.max(0.0, step - math.sqrt(below)), step + math.sqrt(above)
end

--- The seconds of a step whose devices alone take `seconds` (ett_step_with_host).
function spread.with_host(seconds, p) return math.max(seconds, p.data_seconds) + p.stall_seconds end

return spread

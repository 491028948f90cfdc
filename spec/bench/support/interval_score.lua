--- Steps of published rows with the parts of their intervals, and the score of intervals.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local in_step, spread = require "ett.profile.in_step", require "ett.step.spread"
local published, left = require "published", require "published_left_out"

local interval_score = {}

--- A list of steps: those that each(row, kernels, add) adds for a fitted row, with factors fitted without its source.
--- kernels, of the last estimate: low and high of the kernels' own interval, the share of composition, and that of own
--- runs.
function interval_score.steps(each)
  local list, widened, kernels = {}, spread.widened, {}
  function spread.widened(step, low, high, share, own_run)
    kernels.low, kernels.high, kernels.share, kernels.own_run = 1 - low / step, high / step - 1, share, own_run
    return widened(step, low, high, share, own_run)
  end
  local function add(step) list[#list + 1] = step end
  for _, row in ipairs(assert(published.rows())) do
    if published.is_fitted(row) then
      published.factors.apply(left.factors[published.source(row)])
      each(row, kernels, add)
    end
  end
  spread.widened = widened
  return list
end

--- Measured over estimated seconds.
function interval_score.ratio(row, e) return (row.step_median or row.step_seconds) / e.step_seconds end

--- Score of an interval for a step, and whether the step is inside.
function interval_score.step(low, high, ratio)
  local outside = math.max(0.0, low - ratio, ratio - high)
  return high - low + 20 * outside, outside == 0
end

--- Mean score (width + 20 times the distance of a step outside) and share of steps inside.
---@param list table[] steps { low, high, ratio, share, own_run, weight }; its field `part` names the value of
--- in_step.step_spread that is fitted (default "uncompared")
---@param width number? instead of that value in each share
---@param faster number? in_step.faster
---@param slower number? in_step.slower
function interval_score.of(list, width, faster, slower)
  local in_use = in_step.step_spread[list.part or "uncompared"]
  local total, inside, weights = 0.0, 0.0, 0.0
  for _, s in ipairs(list) do
    local share = width and math.sqrt(s.share ^ 2 - in_use ^ 2 + width ^ 2) or s.share
    local low = 1 - math.sqrt(s.low ^ 2 + ((faster or in_step.faster) * share) ^ 2)
    local high = 1 + math.sqrt(s.high ^ 2 + ((slower or in_step.slower) * share) ^ 2 + s.own_run ^ 2)
    local own, is_inside = interval_score.step(low, high, s.ratio)
    total, weights = total + s.weight * own, weights + s.weight
    inside = inside + (is_inside and s.weight or 0)
  end
  return total / weights, inside / weights
end

--- The multiple of a hundredth up to 1 whose score as that value is best.
function interval_score.best(list)
  local best, found = math.huge, nil
  for value = 0, 100 do
    local own = interval_score.of(list, value / 100)
    if own < best then best, found = own, value / 100 end
  end
  return found
end

return interval_score

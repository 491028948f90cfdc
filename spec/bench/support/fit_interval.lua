--- Fits in_step.faster, in_step.slower and step_spread.uncompared on published steps, each estimated without its
--- source.
--
--   ett run spec/bench/support/fit_interval.lua
--
-- Prints the interval score (width + 20 times the distance of a step outside) of the best values and of those in use.
-- Every source counts once. The width of plans without a stack is fitted on the same steps, estimated without naming
-- their software.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local in_step, spread = require "ett.profile.in_step", require "ett.step.spread"
local published, left = require "published", require "published_left_out"

local function estimate(row, without_stack)
  if not without_stack then return published.estimate(row) end
  return require("ett.step.estimate").new { model = require("ett.model").new(published.model(row)),
    cluster = published.cluster(row), plan = published.plan(row, published.dtype(row)) }
end

-- { source, measured over estimated, low and high of the kernels alone, share } of each step.
local function steps(without_stack)
  local list, widened, kernels = {}, spread.widened, nil
  function spread.widened(step, low, high, share)
    kernels = { low = 1 - low / step, high = high / step - 1, share = share }
    return widened(step, low, high, share)
  end
  for _, row in ipairs(assert(published.rows())) do
    if published.is_fitted(row) then
      published.factors.apply(left.factors[published.source(row)])
      local e = estimate(row, without_stack)
      kernels.source, kernels.ratio = published.source(row), (row.step_median or row.step_seconds) / e.step_seconds
      list[#list + 1] = kernels
    end
  end
  spread.widened = widened
  return list
end

local function rows_of_sources(list)
  local counts, sources = {}, 0
  for _, s in ipairs(list) do
    if not counts[s.source] then sources = sources + 1 end
    counts[s.source] = (counts[s.source] or 0) + 1
  end
  return counts, sources
end

-- Mean interval score and share of steps inside; every source has the same weight.
local function score(list, faster, slower, uncompared)
  local counts, sources = rows_of_sources(list)
  local total, inside = 0.0, 0.0
  for _, s in ipairs(list) do
    local share = uncompared and math.sqrt(s.share ^ 2 - in_step.step_spread.uncompared ^ 2 + uncompared ^ 2) or s.share
    local low = 1 - math.sqrt(s.low ^ 2 + (faster * share) ^ 2)
    local high = 1 + math.sqrt(s.high ^ 2 + (slower * share) ^ 2)
    local outside = math.max(0.0, low - s.ratio, s.ratio - high)
    total = total + (high - low + 20 * outside) / counts[s.source]
    inside = inside + (outside == 0 and 1 or 0) / counts[s.source]
  end
  return total / sources, inside / sources
end

local function show(what, ...)
  print(("%-44s score %.3f, inside %.1f %%"):format(what, ..., 100 * select(2, ...)))
end

local list = steps(false)
local best, faster, slower = math.huge, nil, nil
for low = 4, 40 do
  for high = 4, 60 do
    local value = score(list, low / 20, high / 20)
    if value < best then best, faster, slower = value, low / 20, high / 20 end
  end
end
show("equal widths", score(list, 1, 1))
show(("best: faster %.2f, slower %.2f"):format(faster, slower), score(list, faster, slower))
show(("in use: faster %.2f, slower %.2f"):format(in_step.faster, in_step.slower),
  score(list, in_step.faster, in_step.slower))

list, best = steps(true), math.huge
local uncompared
for value = 0, 50 do
  local own = score(list, in_step.faster, in_step.slower, value / 100)
  if own < best then best, uncompared = own, value / 100 end
end
show(("best without a stack: uncompared %.2f"):format(uncompared),
  score(list, in_step.faster, in_step.slower, uncompared))
show(("in use: uncompared %.2f"):format(in_step.step_spread.uncompared),
  score(list, in_step.faster, in_step.slower, in_step.step_spread.uncompared))

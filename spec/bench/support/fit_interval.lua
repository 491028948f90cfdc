--- Fits in_step.faster and in_step.slower on published steps, each estimated without its source.
--
--   ett run spec/bench/support/fit_interval.lua
--
-- Prints the interval score (interval_score.lua) of the best values and of those in use. Every source counts once.
-- Then the same steps are estimated without naming their software, as a test of step_spread.uncompared.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/bench/support/?.lua"
local in_step = require "ett.profile.in_step"
local interval_score = require "interval_score"
local published = require "published"

local function estimate(row, without_stack)
  if not without_stack then return published.estimate(row) end
  return require("ett.step.estimate").new { model = require("ett.model").new(published.model(row)),
    cluster = published.cluster(row), plan = published.plan(row, published.dtype(row)) }
end

local function steps(without_stack)
  local counts = {}
  local list = interval_score.steps(function(row, kernels, add)
    local e, source = estimate(row, without_stack), published.source(row)
    counts[source] = (counts[source] or 0) + 1
    add { source = source, ratio = interval_score.ratio(row, e), low = kernels.low, high = kernels.high,
      share = kernels.share, own_run = kernels.own_run }
  end)
  for _, s in ipairs(list) do s.weight = 1 / counts[s.source] end
  return list
end

local score = interval_score.of

local function show(what, ...)
  print(("%-44s score %.3f, inside %.1f %%"):format(what, ..., 100 * select(2, ...)))
end

local list = steps(false)
local best, faster, slower = math.huge, nil, nil
for low = 4, 40 do
  for high = 4, 60 do
    local value = score(list, nil, low / 20, high / 20)
    if value < best then best, faster, slower = value, low / 20, high / 20 end
  end
end
show("equal widths", score(list, nil, 1, 1))
show(("best: faster %.2f, slower %.2f"):format(faster, slower), score(list, nil, faster, slower))
show(("in use: faster %.2f, slower %.2f"):format(in_step.faster, in_step.slower), score(list))

list = steps(true)
local uncompared = interval_score.best(list)
show(("best without a stack: uncompared %.2f"):format(uncompared), score(list, uncompared))
uncompared = in_step.step_spread.uncompared
show(("in use: uncompared %.2f"):format(uncompared), score(list, uncompared))

--- Fits in_step.own_run to steps of the literature, with their plans as first written.
--
--   ett run spec/bench/support/fit_own_run.lua
--
-- Only steps that are no recipe of compared software count. Steps that are held out and the seventh set, written
-- meanwhile, do not. Every source counts once.
-- Prints the interval score (interval_score.lua) of the best value and of others. Then it leaves out each source in
-- turn and scores its steps with the value that is best for the others.
local root = require("ett.host").root
package.path = package.path .. ";" .. root .. "/spec/bench/support/?.lua"
local in_step = require "ett.profile.in_step"
local interval_score = require "interval_score"
local literature = dofile(root .. "/spec/bench/literature.lua")

local function source_of(step) return (step.source:gsub("[,:%(].*", ""):gsub(" issue.*", "")) end

-- The steps of the fit, with the root of the share of operators that memory limits.
local function steps()
  local list, counts = {}, {}
  for _, step in ipairs(literature.steps(true)) do
    local s = not step.held_out and step.set ~= "seventh" and literature.answered(step)
    if s and not s.refused and s.own_run_seconds > 0 then
      local whole, source = s.step_seconds, source_of(s)
      local high = (s.high_seconds - whole) ^ 2 - s.own_run_seconds ^ 2
      list[#list + 1] = { source = source, low = s.low_seconds / whole, high = math.sqrt(math.max(0.0, high)) / whole,
        root = s.own_run_seconds / whole / in_step.own_run, ratio = s.measured_seconds / whole }
      counts[source] = (counts[source] or 0) + 1
    end
  end
  for _, s in ipairs(list) do s.weight = 1 / counts[s.source] end
  return list, counts
end

-- Sums of the weighted scores and of the weights of steps inside, for the steps of a source, or without one.
local function sums(list, own_run, only, without)
  local total, inside, weights = 0.0, 0.0, 0.0
  for _, s in ipairs(list) do
    if (not only or s.source == only) and s.source ~= without then
      local score, is_inside = interval_score.step(s.low, 1 + math.sqrt(s.high ^ 2 + (own_run * s.root) ^ 2), s.ratio)
      total, inside = total + s.weight * score, inside + (is_inside and s.weight or 0.0)
      weights = weights + s.weight
    end
  end
  return total, inside, weights
end

-- The multiple of a twentieth up to 4 with the best score.
local function best(list, without)
  local least, found = math.huge, nil
  for value = 0, 80 do
    local total = sums(list, value / 20, nil, without)
    if total < least then least, found = total, value / 20 end
  end
  return found
end

local function show(what, total, inside, weights)
  print(("%-32s score %.3f, inside %.1f %%"):format(what, total / weights, 100 * inside / weights))
end

local list, counts = steps()
local sources = require("ett.base.schema").keys(counts)
print(("%d steps of %d sources"):format(#list, #sources))
for _, value in ipairs { 0, best(list), in_step.own_run } do
  show(("own_run %.2f"):format(value), sums(list, value))
end
local total, inside, weights, least, most = 0.0, 0.0, 0.0, math.huge, 0.0
for _, source in ipairs(sources) do
  local value = best(list, source)
  local score, share, weight = sums(list, value, source)
  total, inside, weights = total + score, inside + share, weights + weight
  least, most = math.min(least, value), math.max(most, value)
end
show(("without its source: %.2f to %.2f"):format(least, most), total, inside, weights)

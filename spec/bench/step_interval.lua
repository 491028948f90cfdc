--- Coverage of a step's 90 % interval: steps composed of held-out measured operator times of
--- the shared samples, against the interval that estimates would print for them.
local estimate = require "ett.step.estimate"
local holdout = require "ett.profile.holdout"
local step_intervals = require "step_intervals"

local bench = { summary = ("coverage of a step's interval, steps of held-out samples, seed %d"):format(holdout.seed) }

local clusters = { P = "A100", V = "GH200" }

local function of_cluster(steps, initial)
  local list = {}
  for _, s in ipairs(steps) do if s.cluster == initial then list[#list + 1] = s end end
  return list
end

local function add(rows, name, steps, least, most)
  local c = step_intervals.coverage(steps, estimate.correlation)
  local percent = 100 * c.coverage
  rows[#rows + 1] = { measure = ("%s: steps inside their interval, of %d"):format(name, c.steps),
    value = ("%.1f %%"):format(percent), target = least and ("%d to %d %%"):format(least, most),
    pass = least and percent >= least and percent <= most, steps = c.steps, coverage_percent = percent }
  return c
end

function bench.run()
  local files = require("shared_samples").read()
  if not files then
    return { { measure = "skipped: no shared sample files (set ETT_REFERENCE)", value = "-" } }
  end
  local rows = {}
  for _, split in ipairs { "configuration", "extrapolation" } do
    local steps = step_intervals.steps(files, holdout.seed, split == "extrapolation" and split or nil)
    local far = split == "extrapolation"
    add(rows, split .. " withheld", steps, far and 80 or 85, far and 100 or 95)
    for _, initial in ipairs { "P", "V" } do
      local own, name = of_cluster(steps, initial), "  " .. clusters[initial]
      local c = add(rows, name, own)
      rows[#rows + 1] = { measure = name .. ": median half-width, mean error of the sum",
        value = ("%.1f %%, %.1f %%"):format(100 * c.half_width, 100 * c.error) }
      rows[#rows + 1] = { measure = name .. ": correlation of the errors of a step's operators",
        value = ("%.2f"):format((step_intervals.correlation(own))) }
    end
  end
  return rows
end

return bench

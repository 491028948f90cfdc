--- The regret and the ranking of a model without error, given the scatter of vTrain's measured steps on several nodes.
--
--   ett run spec/bench/support/regret_noise.lua [draws=20000] [most=inf]
--
-- Rows that differ in their micro-batch alone have one error of the model: the median over them. What remains of a row
-- is taken as its scatter. Drawn anew for each row, the scatter gives measured times of a model that knows the times
-- without it. most: larger scatter, as a share, is left out. The last line judges that model by the measured steps.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local median = require "ett.base.median"
local published, left = require "published", require "published_left_out"

local options = require("ett").options { draws = { "count", default = 20000 },
  most = { "positive", default = math.huge } }

published.factors.apply(left.factors["VIA-Research/vTrain"])
local layouts, sets, scatter = {}, {}, {}
for _, row in ipairs(assert(published.rows())) do
  if row.id:find "^vtrain_multi" then
    local id = table.concat({ row.hidden, row.tp, row.pp, row.dp }, " ")
    local entry = { estimate = published.estimate(row).step_seconds, measured = row.step_seconds }
    entry.error = math.log(entry.measured / entry.estimate)
    layouts[id], sets[row.hidden] = layouts[id] or {}, sets[row.hidden] or {}
    table.insert(layouts[id], entry)
    table.insert(sets[row.hidden], entry)
  end
end

for _, id in ipairs(require("ett.base.schema").keys(layouts)) do
  local errors = {}
  for i, entry in ipairs(layouts[id]) do errors[i] = entry.error end
  local middle = median(errors)
  for _, entry in ipairs(layouts[id]) do
    entry.exact = entry.estimate * math.exp(middle)
    local rest = entry.error - middle
    if #errors > 2 and math.exp(rest) - 1 <= options.most then scatter[#scatter + 1] = rest end
  end
end

-- Regret, pairs more than 2 % apart and those in the right order, of one draw of a set.
local function draw(set)
  local measured, best, chosen, pairs_seen, right = {}, math.huge, 1, 0, 0
  for i, a in ipairs(set) do
    measured[i] = a.exact * math.exp(scatter[math.random(#scatter)])
    best = math.min(best, measured[i])
    if a.exact < set[chosen].exact then chosen = i end
    for j = 1, i - 1 do
      local ratio = measured[i] / measured[j]
      if ratio > 1.02 or ratio < 1 / 1.02 then
        pairs_seen = pairs_seen + 1
        if (ratio > 1) == (a.exact > set[j].exact) then right = right + 1 end
      end
    end
  end
  return 100 * (measured[chosen] / best - 1), pairs_seen, right
end

-- Regret in percent of the plan with the shortest time of a set, by the measured steps.
local function measured_regret(set)
  local best, chosen = math.huge, set[1]
  for _, entry in ipairs(set) do
    best = math.min(best, entry.measured)
    if entry.exact < chosen.exact then chosen = entry end
  end
  return 100 * (chosen.measured / best - 1)
end

math.randomseed(1)
local regrets, pairs_seen, right, above = {}, 0, 0, { 0, 0 }
for i = 1, options.draws do
  local sum = 0.0
  for _, hidden in ipairs { 3072, 6144 } do
    local regret, seen, in_order = draw(sets[hidden])
    sum, pairs_seen, right = sum + regret, pairs_seen + seen, right + in_order
  end
  regrets[i] = sum / 2
  if regrets[i] > 1.5 then above[1] = above[1] + 1 end
  if regrets[i] > 1 then above[2] = above[2] + 1 end
end
local sizes = {}
for i, rest in ipairs(scatter) do sizes[i] = 100 * math.abs(math.exp(rest) - 1) end
table.sort(sizes)
print(("scatter of %d rows: median %.1f %%, largest %.0f %%"):format(#sizes, median(sizes), sizes[#sizes]))
print(("regret: median %.1f %%; above 1.5 %% in %.0f %% of draws, above 1 %% in %.0f %%"):format(median(regrets),
  100 * above[1] / options.draws, 100 * above[2] / options.draws))
print(("pairs in the right order: %.1f %%"):format(100 * right / pairs_seen))
print(("regret of that model: %.1f %%"):format((measured_regret(sets[3072]) + measured_regret(sets[6144])) / 2))

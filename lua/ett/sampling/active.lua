--- Active sampling: measures where the regressor is least sure, until its held-out error is small enough.
--
-- The candidates are the campaign's own shapes; shapes of one kernel count as one. After a start that reaches the
-- corners, each round fits rough surfaces to what was measured (ett.sampling.profile) and takes the shapes that
-- would lower their variance over all candidates most (Cohn 1996), one after the other: what a shape teaches does
-- not depend on what it measures. A round is a quarter of what was measured, so that there are few fits.
--
-- Trees serve what GPUs measure: there every other shape of a round is the one farthest from all that were measured, of
-- this operator or of another one of the campaign that runs the same kernel.
--
-- It ends when the 90 % upper bound of the leave-one-out median error is below the target for every pass, or when the
-- whole grid would do no better and could not reach the target either: the deviation of a new measurement, as the
-- surfaces have it, is then within a tenth of what all shapes measured would leave (chooser.excess). Of trees
-- the surfaces cannot say that: "grid" is then a number of shapes (active.spend).
local campaign_operator = require "ett.operator"
local error_module = require "ett.base.error"
local sample = require "ett.sample"
local sample_limit = require "ett.sampling.limit"
local sample_profile = require "ett.sampling.profile"
local sampler = require "ett.sampling.sampler"
local sample_table = require "ett.samples.table"
local samples = require "ett.profile.samples"

local active = {}

-- Distinct shapes that a design looks at: it holds their covariance, and the grid's costs their number cubed.
local most_candidates = 1000
-- A round's share of what was measured, and its least shapes; the share when the end is near.
local growth, least_round, last_growth, near = 0.25, 4, 0.08, 1.18
--- What no timing repeats better than counts as noise.
active.repeatable = 0.005
--- A shape is visited so many times as often as in a whole grid, where the back end makes visits: what the fewer shapes
--- save is spent in part on their noise.
active.visits = 3
--- As good as the grid: so many times the deviation that the grid would leave.
active.grid_excess = 1.1
--- With fewer shapes than a dozen for each feature, or on a small grid than this share of it, the surfaces are not
--- asked about the grid.
active.least_share = 0.15
--- Where trees will serve (not a surface): with "grid", so many times the square root of the shapes are measured, a
--- quarter of 1200, and a fifth of the shapes where that is more: a model is made of rows, not of shares.
active.spend, active.spend_share = math.sqrt(1200) / 4, 0.2

--- Upper 90 % bound of the median of sorted errors, by its order statistic (a binomial of 1/2).
function active.median_bound(sorted)
  local n = #sorted
  local at = math.ceil(0.5 * n + 0.64 * math.sqrt(n)) -- 1.28 * sqrt(n) / 2
  return sorted[math.min(n, at)]
end

--- Largest leave-one-out bound over the passes of an operator.
local function error_of(profile, keys)
  local worst = 0
  for _, key in ipairs(keys) do
    local errors = profile:held_out(key)
    table.sort(errors)
    worst = math.max(worst, active.median_bound(errors))
  end
  return worst
end

--- `most` entries spread over a list by the golden ratio; the list itself where it is short.
local function thinned(list, most)
  if #list <= most then return list end
  local chosen, seen, fraction = {}, {}, 0.5
  while #chosen < most do
    local at = 1 + math.floor(fraction * #list)
    if not seen[at] then
      seen[at] = true
      chosen[#chosen + 1] = list[at]
    end
    fraction = (fraction + 0.6180339887498949) % 1
  end
  return chosen
end

--- The distinct kernels among the shapes of a list: { at = its first position, x = features, weight = shapes }, by
--- name; the positions of the others.
local function kernels_of(op, target, list)
  local kernels, by_name, twins = {}, {}, {}
  for i, index in ipairs(list) do
    local ok, s = sample_limit.call(target.shape, target.values(index))
    if ok then
      local x = sample_profile.features(op, s)
      local name = table.concat(x, " ")
      local kernel = by_name[name]
      if kernel then
        kernel.weight = kernel.weight + 1
        twins[#twins + 1] = i
      else
        kernel = { at = i, x = x, weight = 1 }
        by_name[name], kernels[#kernels + 1] = kernel, kernel
      end
    end
  end
  return kernels, by_name, twins
end

--- Squared distance of two points, each feature by its scale.
local function distance(a, b, scale)
  local sum = 0
  for d = 1, #a do sum = sum + ((a[d] - b[d]) / scale[d]) ^ 2 end
  return sum
end

--- Centre of the kernels' features, and each one's spread (1 where there is none).
local function centre_of(kernels)
  local centre, spread = {}, {}
  for d = 1, #kernels[1].x do
    local sum, square = 0, 0
    for _, kernel in ipairs(kernels) do sum = sum + kernel.x[d] / #kernels end
    for _, kernel in ipairs(kernels) do square = square + (kernel.x[d] - sum) ^ 2 / #kernels end
    centre[d], spread[d] = sum, square > 1e-12 and math.sqrt(square) or 1
  end
  return centre, spread
end

--- What fills the space of the kernels: the middle, then always the open one farthest from all that were measured
--- (Gonzalez 1985), which reaches the corners first.
local function filler(kernels)
  local fill, centre, spread, empty = {}, nil, nil, true
  if #kernels > 0 then centre, spread = centre_of(kernels) end

  --- Takes in a point that was measured.
  function fill.seen(x)
    if not centre or #x ~= #centre then return end
    empty = false
    for _, kernel in ipairs(kernels) do
      kernel.far = math.min(kernel.far or math.huge, distance(kernel.x, x, spread))
    end
  end

  --- The next of a list of kernels, and where it is; nil when none is open.
  function fill.next(list)
    local best, most, at
    for i, kernel in ipairs(list) do
      if not kernel.taken then
        local value = empty and -distance(kernel.x, centre, spread) or kernel.far
        if not best or value > most then best, most, at = kernel, value, i end
      end
    end
    return best, at
  end
  return fill
end

--- How sure the surfaces are over the candidates, and a design that says what to measure next.
---@return userdata design, number excess worst over the surfaces: mean deviation of a measurement at an open
--- candidate over that which the whole grid would leave there
local function look(profile, keys, candidates, shapes, visits, with_grid)
  local points, weights = {}, {}
  for i, kernel in ipairs(candidates) do
    table.move(kernel.x, 1, #kernel.x, #points + 1, points)
    weights[i] = kernel.weight
  end
  local design, excess = assert(sample.design(weights)), 0
  for number, key in ipairs(keys) do
    local surface = profile:surface(key)
    assert(design:add(surface, points))
    local noise2 = select(2, surface:scales()) ^ 2
    local floor2 = math.max(0, active.repeatable ^ 2 - noise2)
    local now, grid = 0, 0
    if with_grid then
      local deviations, reached = design:deviations(number), assert(surface:grid_deviation(points, visits))
      for i, kernel in ipairs(candidates) do
        if not kernel.taken then
          now = now + math.sqrt(deviations[i] ^ 2 + noise2 + floor2)
          -- Candidates that stand for more shapes: what is not noise falls as their number.
          grid = grid + math.sqrt(noise2 + floor2 + math.max(0, reached[i] ^ 2 - noise2) * #candidates / shapes)
        end
      end
    end
    excess = math.max(excess, grid > 0 and now / grid or 1)
  end
  for i, kernel in ipairs(candidates) do if kernel.taken then design:shut(i) end end
  return design, excess
end

--- Chooses shapes of a list one round at a time.
---@param target table operator target of a campaign
---@param list integer[] indices of its shapes that may be measured
---@param options table target_error (0 or "grid": as good as the whole grid), first (how many to start with), dtype,
--- visits (of a shape here, for each that it would have in a whole grid: 1), trees (whether they serve the samples,
--- not a surface), known (list of features: what was measured of the same kernels elsewhere; what is measured is added)
function active.chooser(target, list, options)
  local op = campaign_operator.get(target.operator.name)
  local profile = sample_profile.new(options.dtype)
  local kernels, by_name, twins = kernels_of(op, target, list)
  local fill, total = filler(kernels), #kernels
  local goal = options.target_error == "grid" and 0 or options.target_error
  local first = options.first or math.max(8, 4 * #target.columns)
  local keys, queue, candidates, width = {}, {}, {}, nil
  local chooser = { profile = profile, measured = 0 }
  for _, x in ipairs(options.known or {}) do fill.seen(x) end

  --- Takes in one measurement.
  function chooser.add(s, results)
    for pass, result in pairs(results) do
      local key = sample_profile.pool_name(op) .. " " .. pass
      local new = true
      for _, k in ipairs(keys) do new = new and k ~= key end
      if new then keys[#keys + 1] = key end
      profile:add(op, s, pass, result.seconds)
    end
    table.sort(keys)
    local x = sample_profile.features(op, s)
    local kernel = by_name[table.concat(x, " ")]
    if not kernel then
      by_name[table.concat(x, " ")] = { taken = true }
      total = total + 1
    elseif not kernel.taken then
      kernel.taken = true
      fill.seen(x)
    end
    if options.known then options.known[#options.known + 1] = x end
    width = #x
    chooser.measured = chooser.measured + 1
  end

  local function take(kernel)
    kernel.taken = true
    queue[#queue + 1] = kernel.at
    fill.seen(kernel.x)
  end

  --- Shapes that trees are worth.
  local function spend() return math.ceil(math.max(active.spend * math.sqrt(total), active.spend_share * total)) end

  --- Whether enough was measured (says why in chooser.done), and whether the surfaces may be asked about the grid.
  local function met()
    chooser.error = error_of(profile, keys)
    if chooser.error <= goal then
      chooser.done = "target"
    elseif options.trees and options.target_error == "grid" and chooser.measured >= spend() then
      chooser.done = "spent"
    end
    -- Fewer points than a dozen a feature tell noise from structure by luck, but of a small grid so many are most of
    -- it. Trees need more than the surfaces think.
    local enough = 12 * (width + 1)
    if options.trees then
      enough = math.max(enough, spend())
    else
      enough = math.min(enough, math.max(4 * (width + 1), math.ceil(active.least_share * total)))
    end
    return chooser.done ~= nil, chooser.measured >= enough
  end

  local function open_candidates()
    for _, kernel in ipairs(candidates) do if not kernel.taken then return true end end
    local open = {}
    for _, kernel in ipairs(kernels) do if not kernel.taken then open[#open + 1] = kernel end end
    candidates = #candidates == 0 and thinned(kernels, most_candidates) or thinned(open, most_candidates)
    return #open > 0
  end

  local was_near = false -- one look may be luck

  local function refill()
    local done, enough = met()
    if done then return end
    if not open_candidates() then -- what is left are shapes of kernels that were measured
      queue, twins = twins, {}
      return
    end
    local design <close>, excess = look(profile, keys, candidates, #kernels, options.visits or 1, enough)
    if enough then
      chooser.excess = excess
      if excess <= active.grid_excess and was_near and chooser.error / excess > goal then
        chooser.done = "grid"
        return
      end
      was_near = excess < near
    end
    local share = chooser.excess and chooser.excess < near and last_growth or growth
    local count = math.max(least_round, math.ceil(share * chooser.measured))
    if options.trees and options.target_error == "grid" then count = math.min(count, spend() - chooser.measured) end
    for k = 1, count do
      local i
      if options.trees and k % 2 == 0 then -- trees step where the surfaces are smooth
        i = select(2, fill.next(candidates))
        if i then design:take(i) end
      else
        i = design:next()
      end
      if not i then break end
      take(candidates[i])
    end
  end

  --- How many chosen shapes wait for their turn.
  function chooser.waiting() return #queue end

  --- The next position of the list, or nil when the target is met or nothing is left.
  function chooser.next()
    if #queue == 0 and not chooser.done then
      if chooser.measured < first then
        for _ = chooser.measured + 1, first do
          local kernel = fill.next(kernels)
          if not kernel then break end
          take(kernel)
        end
      end
      if #queue == 0 and chooser.measured >= 4 then refill() end
      if #queue == 0 then queue, twins = chooser.done and {} or twins, {} end
    end
    if chooser.done then return nil end
    return table.remove(queue, 1)
  end
  return chooser
end

--- Runs a campaign actively: `ett sample --active --target-error E`.
function active.run(given, options, target_error)
  if options.share then
    error_module.raise("usage", "--active chooses one shape after the other: run it on one rank")
  end
  local visits
  if (options.backend or given.backend) == "cpu" then
    visits = active.visits
    options.passes = active.visits * (given.passes or 3)
    options.budget_seconds = active.visits * (options.budget_seconds or given.budget_seconds or 0.02)
  end
  local known = {} -- by pool and precision
  options.chooser = function(target, list, precision, path)
    if target.kind ~= "operator" then return nil end
    local pool = samples.pool(target.operator) .. " " .. precision
    known[pool] = known[pool] or {}
    local chooser = active.chooser(target, list, { target_error = target_error, dtype = precision, visits = visits,
      trees = not visits, known = not visits and known[pool] or nil })
    -- Rows of an earlier run count.
    local held = error_module.must(sample_table.read(path))
    for r in ipairs(held.rows) do
      local row = sample_table.numbers(held, r)
      local values, results = table.move(row, 1, #target.columns, 1, {}), {}
      for i, pass in ipairs(target.operator.passes) do results[pass] = { seconds = row[#target.columns + i] * 1e-6 } end
      local ok, s = pcall(target.shape, values)
      if ok then chooser.add(s, results) end
    end
    return chooser
  end
  return sampler.run(given, options)
end

return active

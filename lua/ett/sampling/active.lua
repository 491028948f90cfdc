--- Active sampling: measures where the regressor is least certain, until its held-out error is small enough.
--
-- The candidates are the campaign's shapes; shapes with the same kernel count once. The first shapes are the corners of
-- the space. Each round fits rough surfaces to the samples (ett.sampling.surfaces) and takes the shapes that most
-- reduce the variance over all candidates (Cohn 1996). The variance does not depend on measured values, so a round can
-- take several shapes, a quarter of those measured; this keeps the number of fits low.
--
-- Trees model samples of GPUs. There, every second shape of a round is the one farthest from the measured shapes of its
-- kernel. Shapes of other operators of the campaign count, too, if they run the same kernel.
--
-- Sampling ends when the 90 % upper bound of the leave-one-out median error is below the target for every pass. It also
-- ends when the target is out of reach and the whole grid would hardly help: the surfaces' deviation of a new
-- measurement is then within a tenth of the deviation with all shapes measured (chooser.excess). Surfaces cannot judge
-- trees: for trees, "grid" means a number of shapes (active.spend).
local error_module = require "ett.base.error"
local operator = require "ett.operator"
local sample = require "ett.sample"
local sample_limit = require "ett.sampling.limit"
local surfaces = require "ett.sampling.surfaces"
local sampler = require "ett.sampling.sampler"
local sample_table = require "ett.samples.table"
local samples = require "ett.profile.samples"

local active = {}

-- Most distinct shapes of a design: it stores their covariance, and its cost grows with the cube of their number.
local most_candidates = 1000
-- Shapes of a round: a share of those measured, and a minimum; the share close to the end.
local growth, least_round, last_growth, near = 0.25, 4, 0.08, 1.18
--- Relative deviation below which timings do not repeat; counted as noise.
active.repeatable = 0.005
--- Visits of a shape per visit in a whole grid, for back ends with visits: fewer shapes leave time to reduce their
--- noise.
active.visits = 3
--- Largest deviation, relative to the whole grid's, that counts as equal.
active.grid_excess = 1.1
--- Below 12 shapes per feature, or on a small grid below this share of its shapes, convergence is not tested.
active.least_share = 0.15
--- Trees with target "grid": number of shapes, as a factor of the square root of all shapes (a quarter of 1200 shapes),
--- or as a share of all shapes if that is more.
active.spend, active.spend_share = math.sqrt(1200) / 4, 0.2

--- Upper 90 % bound of the median of sorted errors, by its order statistic (a binomial of 1/2).
function active.median_bound(sorted)
  local n = #sorted
  local at = math.ceil(0.5 * n + 0.64 * math.sqrt(n)) -- 1.28 * sqrt(n) / 2
  return sorted[math.min(n, at)]
end

--- Largest leave-one-out bound over the passes of an operator.
local function error_of(fitted, keys)
  local worst = 0
  for _, key in ipairs(keys) do
    local errors = fitted:held_out(key)
    table.sort(errors)
    worst = math.max(worst, active.median_bound(errors))
  end
  return worst
end

--- `most` entries of a list, spread by the golden ratio; a shorter list is returned whole.
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

--- The distinct kernels among the shapes of a list, by name: { at = first position, x = features, weight = shapes };
--- and the positions of all further shapes.
local function kernels_of(op, target, list)
  local kernels, by_name, twins = {}, {}, {}
  for i, index in ipairs(list) do
    local ok, s = sample_limit.call(target.shape, target.values(index))
    if ok then
      local x = surfaces.features(op, s)
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

--- Squared distance of two points, each feature divided by its scale.
local function distance(a, b, scale)
  local sum = 0
  for d = 1, #a do sum = sum + ((a[d] - b[d]) / scale[d]) ^ 2 end
  return sum
end

--- Centre of the kernels' features, and the spread of each feature (1 if there is none).
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

--- Fills the space of the kernels: first the central one, then always the open one farthest from all measured ones
--- (Gonzalez 1985), which reaches the corners early.
local function filler(kernels)
  local fill, centre, spread, empty = {}, nil, nil, true
  if #kernels > 0 then centre, spread = centre_of(kernels) end

  --- Adds a measured point.
  function fill.seen(x)
    if not centre or #x ~= #centre then return end
    empty = false
    for _, kernel in ipairs(kernels) do
      kernel.far = math.min(kernel.far or math.huge, distance(kernel.x, x, spread))
    end
  end

  --- The next of a list of kernels and its position; nil if none is open.
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

--- The uncertainty of the surfaces over the candidates, and a design that chooses the next shapes.
---@return userdata design, number excess of the worst surface: mean deviation of a measurement at an open candidate,
--- relative to the deviation with the whole grid measured
local function look(fitted, keys, candidates, shapes, visits, with_grid)
  local points, weights = {}, {}
  for i, kernel in ipairs(candidates) do
    table.move(kernel.x, 1, #kernel.x, #points + 1, points)
    weights[i] = kernel.weight
  end
  local design, excess = assert(sample.design(weights)), 0
  for number, key in ipairs(keys) do
    local surface = fitted:surface(key)
    assert(design:add(surface, points))
    local noise2 = select(2, surface:scales()) ^ 2
    local floor2 = math.max(0, active.repeatable ^ 2 - noise2)
    local now, grid = 0, 0
    if with_grid then
      local deviations, reached = design:deviations(number), assert(surface:grid_deviation(points, visits))
      for i, kernel in ipairs(candidates) do
        if not kernel.taken then
          now = now + math.sqrt(deviations[i] ^ 2 + noise2 + floor2)
          -- A candidate may represent several shapes: the part without noise falls with their number.
          grid = grid + math.sqrt(noise2 + floor2 + math.max(0, reached[i] ^ 2 - noise2) * #candidates / shapes)
        end
      end
    end
    excess = math.max(excess, grid > 0 and now / grid or 1)
  end
  for i, kernel in ipairs(candidates) do if kernel.taken then design:shut(i) end end
  return design, excess
end

---@class Chooser surfaces, keys (pools of its passes), kernels, by_name, twins, total, fill, queue (positions to
--- measure), candidates (kernels that a design looks at), goal, first, width, options; measured, error, excess, done
local Chooser = {}
Chooser.__index = Chooser

function Chooser:add_sample(s, results)
  for _, entry in ipairs(sample_table.passes(results)) do
    local pass, result = entry[1], entry[2]
    local key = surfaces.key(self.op, pass)
    local new = true
    for _, k in ipairs(self.keys) do new = new and k ~= key end
    if new then self.keys[#self.keys + 1] = key end
    self.surfaces:add(self.op, s, pass, result.seconds)
  end
  table.sort(self.keys)
  local x = surfaces.features(self.op, s)
  local name = table.concat(x, " ")
  local kernel = self.by_name[name]
  if not kernel then
    self.by_name[name] = { taken = true }
    self.total = self.total + 1
  elseif not kernel.taken then
    kernel.taken = true
    self.fill.seen(x)
  end
  local known = self.options.known
  if known then known[#known + 1] = x end
  self.width = #x
  self.measured = self.measured + 1
end

function Chooser:take(kernel)
  kernel.taken = true
  self.queue[#self.queue + 1] = kernel.at
  self.fill.seen(kernel.x)
end

--- Number of shapes to measure for trees.
function Chooser:spend()
  return math.ceil(math.max(active.spend * math.sqrt(self.total), active.spend_share * self.total))
end

--- Whether trees will model the samples and the target is the whole grid's error: then a number of shapes is measured.
function Chooser:spends() return self.options.trees and self.options.target_error == "grid" end

--- Whether enough was measured (the reason is chooser.done), and whether convergence is tested against the grid.
function Chooser:met()
  self.error = error_of(self.surfaces, self.keys)
  if self.error <= self.goal then
    self.done = "target"
  elseif self:spends() and self.measured >= self:spend() then
    self.done = "spent"
  end
  -- Below 12 shapes per feature, noise and structure cannot be separated. On a small grid, 12 would be most shapes.
  -- Trees need more shapes than the surfaces estimate.
  local enough = 12 * (self.width + 1)
  if self.options.trees then
    enough = math.max(enough, self:spend())
  else
    enough = math.min(enough, math.max(4 * (self.width + 1), math.ceil(active.least_share * self.total)))
  end
  return self.done ~= nil, self.measured >= enough
end

--- Chooses the candidates of a round; false if every kernel was measured.
function Chooser:open_candidates()
  for _, kernel in ipairs(self.candidates) do if not kernel.taken then return true end end
  local open = {}
  for _, kernel in ipairs(self.kernels) do if not kernel.taken then open[#open + 1] = kernel end end
  self.candidates = thinned(#self.candidates == 0 and self.kernels or open, most_candidates)
  return #open > 0
end

function Chooser:choose(design)
  local share = self.excess and self.excess < near and last_growth or growth
  local count = math.max(least_round, math.ceil(share * self.measured))
  if self:spends() then count = math.min(count, self:spend() - self.measured) end
  for k = 1, count do
    local i
    if self.options.trees and k % 2 == 0 then -- trees step where the surfaces are smooth
      i = select(2, self.fill.next(self.candidates))
      if i then design:take(i) end
    else
      i = design:next()
    end
    if not i then break end
    self:take(self.candidates[i])
  end
end

function Chooser:refill()
  local done, enough = self:met()
  if done then return end
  if not self:open_candidates() then -- all remaining shapes have measured kernels
    self.queue, self.twins = self.twins, {}
    return
  end
  local design <close>, excess = look(self.surfaces, self.keys, self.candidates, #self.kernels,
    self.options.visits or 1, enough)
  if enough then
    self.excess = excess
    if excess <= active.grid_excess and self.was_near and self.error / excess > self.goal then
      self.done = "grid"
      return
    end
    self.was_near = excess < near -- a single test may be luck
  end
  self:choose(design)
end

--- The next position of the list; nil if the target is met or no shape is left.
function Chooser:next_position()
  if #self.queue == 0 and not self.done then
    for _ = self.measured + 1, self.first do
      local kernel = self.fill.next(self.kernels)
      if not kernel then break end
      self:take(kernel)
    end
    if #self.queue == 0 and self.measured >= 4 then self:refill() end
    if #self.queue == 0 then self.queue, self.twins = self.done and {} or self.twins, {} end
  end
  return not self.done and table.remove(self.queue, 1) or nil
end

--- Chooses shapes of a list, one round at a time.
---@param target table operator target of a campaign
---@param list integer[] indices of its shapes that may be measured
---@param options table target_error (0 or "grid": as good as the whole grid), first (number of initial shapes), dtype,
--- visits (of a shape, per visit in a whole grid; default 1), trees (whether trees, not a surface, will model the
--- samples), known (features of the same kernels measured elsewhere; new ones are added)
---@return table chooser next() -> position or nil, add(s, results), waiting() -> number of queued shapes
function active.chooser(target, list, options)
  local op = operator.get(target.operator.name)
  local kernels, by_name, twins = kernels_of(op, target, list)
  local self = setmetatable({ op = op, options = options, surfaces = surfaces.new(options.dtype), measured = 0,
    kernels = kernels, by_name = by_name, twins = twins, total = #kernels, fill = filler(kernels), keys = {},
    queue = {}, candidates = {}, goal = options.target_error == "grid" and 0 or options.target_error,
    first = options.first or math.max(8, 4 * #target.columns) }, Chooser)
  for _, x in ipairs(options.known or {}) do self.fill.seen(x) end
  function self.add(s, results) self:add_sample(s, results) end
  function self.next() return self:next_position() end
  function self.waiting() return #self.queue end
  return self
end

--- Runs a campaign actively: `ett sample --active --target-error E`.
function active.run(given, options, target_error)
  if options.share then
    error_module.raise("usage", "--active chooses one shape after the other: run it on one rank")
  end
  local visits
  if (options.backend or given.backend) == "cpu" then
    visits = active.visits
    options.visits = active.visits * (given.visits or 3)
    options.budget_seconds = active.visits * (options.budget_seconds or given.budget_seconds or 0.02)
  end
  local known = {} -- by pool and precision
  options.chooser = function(target, list, precision, path)
    if target.kind ~= "operator" then return nil end
    local pool = samples.pool(target.operator) .. " " .. precision
    known[pool] = known[pool] or {}
    local chooser = active.chooser(target, list, { target_error = target_error, dtype = precision, visits = visits,
      trees = not visits, known = not visits and known[pool] or nil })
    -- Rows of an earlier run count as measured.
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

--- The regressor of CPU sample tables: a smooth surface through the samples (samplers/core/surface.h).
--
-- Trees need more rows than the few dozen shapes of a CPU campaign. In two runs on a busy machine, the median held-out
-- error over operators was 3.8 % with a surface and 9.7 % with the hybrid model, then 6.7 and 6.6 %.
--
-- The reported error is held out: in each of ten folds (equal shapes together), length scales and noise are fitted
-- without the fold's rows. The closed form of leave-one-out would use scales fitted to all rows. The half-width of the
-- interval is the surface's standard deviation times the 90 % quantile of held-out residuals over their deviations
-- (conformal; Lei et al. 2018).
local error_module = require "ett.base.error"
local files = require "ett.io"
local median = require "ett.base.median"
local sample = require "ett.sample"

local regressor_surface = {}
local Surface = { __name = "ett.profile.surface" }
Surface.__index = Surface

--- Above this number of rows trees are more accurate, and a surface is slow to fit.
regressor_surface.most_rows = 600

--- Increase this when fits may change; it is part of the key of a cached fit.
regressor_surface.version = "6"

-- Fewer folds for large tables, whose fits are slow.
local function folds_of(rows) return rows <= 200 and 10 or 5 end
-- Variance of a row measured under noise, relative to that of a row without noise.
local doubtful = 16.0
-- A row is an outlier if its held-out residual exceeds both limits: a factor, and a number of robust deviations.
local gate_ratio, gate_deviations = 3, 8

-- FLOPs or elements of a kernel by family and dimensions (ett.profile.samples), with assumed constants for small
-- kernels. Times are divided by the sum of this work and the start (start_of); the surface learns the difference.
-- Without a mask (0) attention computes twice as many pairs as with a causal mask.
local work = {
  gemm = function(d) return d[1] * d[2] * d[3] * d[4] + 64.0 * d[1] * (d[2] * d[4] + d[3] * d[4] + d[2] * d[3]) end,
  attention = function(d) return d[1] * d[2] * d[4] * d[5] * (d[6] + 8) * (d[7] ~= 0 and d[7] or 2.0) end,
  rowwise = function(d) return d[1] * (d[2] + 16.0) end,
  embedding = function(d) return d[1] * (d[2] + 16.0) end,
  optimizer = function(d) return d[1] + 1000.0 end,
  collective = function(d) return d[1] + 4000.0 end,
}

local function work_of(family) return work[family] or function() return 1.0 end end

-- Coordinates of the surface: logarithms of the dimensions. The rows of rope and softmax are a multiple of the third
-- dimension and are divided by it. The number of elements is one more coordinate, because cache effects depend on it. A
-- flag of 0 is placed one doubling below 1.
local function logarithms(d, family)
  local x = {}
  local count = family == "embedding" and 3 or #d -- the vocabulary of all ranks does not change the kernel
  for i = 1, count do x[i] = math.log(d[i] > 0 and d[i] or 0.5) end
  local rows, width = x[1], x[2]
  if family == "rowwise" and #d == 3 then x[1] = x[1] - x[3] end
  if family == "rowwise" or family == "embedding" then x[#x + 1] = rows + width end
  return x
end

--- Whether the CPU or MPI back end of `ett sample` wrote a table.
function regressor_surface.suits(path)
  local back_end = require("ett.samples.table").back_end(path)
  return back_end == "cpu" or back_end == "mpi"
end

-- Mean distance of log(time / (work + start)) from its median, over some rows, and that median.
local function unevenness(data, rows, start)
  local y, sum = {}, 0.0
  for k, i in ipairs(rows) do y[k] = data.time[i] - math.log(data.work[i] + start) end
  local middle = median(y)
  for _, value in ipairs(y) do sum = sum + math.abs(value - middle) end
  return sum / #y, middle
end

-- The fixed time of a call, in units of work: the value for which time over (work + start) varies least among some
-- rows. It is found by factors of two, then to 4 %, and is at most the shortest time. It decides predictions below the
-- samples; inside their range the surface corrects it.
local function start_of(data, rows)
  local least, most, shortest = math.huge, 0.0, math.huge
  for _, i in ipairs(rows) do
    least, most = math.min(least, data.work[i]), math.max(most, data.work[i])
    shortest = math.min(shortest, data.time[i])
  end
  local best, lowest, step = 0.0, unevenness(data, rows, 0.0) * (1 - 1e-9), 2.0
  local function try(start)
    local value, middle = unevenness(data, rows, start)
    if value < lowest and middle + math.log(start) <= shortest then best, lowest = start, value end
  end
  local start = least / 64
  while start <= 16 * most do
    try(start)
    start = 2 * start
  end
  while best > 0 and step > 1.04 do
    step = math.sqrt(step)
    local middle = best
    try(middle / step)
    try(middle * step)
  end
  return best
end

-- The points of some rows in the form of ett.sample, and their start: 0 unless data.starts.
local function points_of(data, rows)
  local x, y, doubt, start = {}, {}, data.doubt and {}, data.starts and start_of(data, rows) or 0.0
  for k, i in ipairs(rows) do
    table.move(data.x, (i - 1) * data.width + 1, i * data.width, #x + 1, x)
    y[k] = data.time[i] - math.log(data.work[i] + start)
    if doubt then doubt[k] = data.doubt[i] end
  end
  return { x = x, y = y, doubt = doubt, width = data.width, start = start }
end

local function surface_through(points)
  local surface, err = sample.surface(points.x, points.width, points.y, nil, points.doubt)
  if not surface then error(err, 0) end
  return surface
end

-- Median distance of the logarithms of some rows' times from a surface through others.
local function error_below(data, rows, others)
  local points, off = points_of(data, others), {}
  local surface = surface_through(points)
  for k, i in ipairs(rows) do
    local x = table.move(data.x, (i - 1) * data.width + 1, i * data.width, 1, {})
    off[k] = math.abs(surface:predict(x) + math.log(data.work[i] + points.start) - data.time[i])
  end
  surface:close()
  return median(off)
end

-- Whether the smallest fifth of the rows is predicted clearly better from the others with a start than without one. The
-- limit was chosen on artificial tables of eight laws. Their mean error at half the smallest sample is 0.22
-- (logarithm), and 0.44 without a start. With a limit of 0.9 it is 0.20, but more tables get a start although their law
-- has none.
local function needs_start(data, rows)
  local sorted, small, large = table.move(rows, 1, #rows, 1, {}), {}, {}
  table.sort(sorted, function(a, b) return data.work[a] < data.work[b] end)
  local limit = data.work[sorted[math.max(1, #rows // 5)]]
  for _, i in ipairs(rows) do table.insert(data.work[i] <= limit and small or large, i) end
  if #large < 2 then return false end
  data.starts = false
  local without = error_below(data, small, large)
  data.starts = true
  return error_below(data, small, large) < 0.7 * without
end

-- The fold of each row. Equal points share a fold; points are shuffled with a fixed seed and dealt to the folds in
-- turn.
local function fold_of(data, rows)
  local mix, point, keys, key_of = require("ett.regress").mix, {}, {}, {}
  for _, i in ipairs(rows) do
    local name = table.concat(data.x, " ", (i - 1) * data.width + 1, i * data.width)
    if not point[name] then
      keys[#keys + 1] = name
      point[name] = mix(#keys)
    end
    key_of[i] = name
  end
  table.sort(keys, function(a, b) return math.ult(point[a], point[b]) end)
  local fold, folds = {}, folds_of(#rows)
  for order, name in ipairs(keys) do point[name] = order % folds end
  for _, i in ipairs(rows) do fold[i] = point[key_of[i]] end
  return fold, folds
end

-- Mean and standard deviation of a new measurement: uncertainty of the surface and noise together.
local function deviation_at(surface, x, noise)
  local mean, deviation = surface:predict(x)
  return mean, math.sqrt(deviation ^ 2 + noise ^ 2) + 1e-9
end

-- Residual of every row from a surface fitted without the row's fold, and that residual over its standard deviation.
local function held_out(data, rows)
  local fold, folds = fold_of(data, rows)
  local residual, score = {}, {}
  for f = 0, folds - 1 do
    local train, test = {}, {}
    for _, i in ipairs(rows) do table.insert(fold[i] == f and test or train, i) end
    if #test > 0 and #train >= 2 then
      local points = points_of(data, train)
      local surface = surface_through(points)
      local _, noise = surface:scales()
      for _, i in ipairs(test) do
        local x = table.move(data.x, (i - 1) * data.width + 1, i * data.width, 1, {})
        local mean, deviation = deviation_at(surface, x, noise)
        residual[i] = mean + math.log(data.work[i] + points.start) - data.time[i]
        score[i] = math.abs(residual[i]) / deviation
      end
      surface:close()
    end
  end
  return residual, score
end

-- Splits rows into outliers and the rest by the distance of their held-out residual from the median residual.
local function outliers_of(rows, residual)
  local values, off = {}, {}
  for _, i in ipairs(rows) do values[#values + 1] = residual[i] end
  if #values < 8 then return {}, rows end
  local middle = median(values)
  for k, value in ipairs(values) do off[k] = math.abs(value - middle) end
  local limit = math.max(math.log(gate_ratio), gate_deviations * 1.4826 * median(off))
  local dropped, kept = {}, {}
  for _, i in ipairs(rows) do
    table.insert(residual[i] and math.abs(residual[i] - middle) > limit and dropped or kept, i)
  end
  return dropped, kept
end

-- The quantile of the scores that covers 90 % of new rows.
local function conformal(score, rows)
  local sorted = {}
  for _, i in ipairs(rows) do sorted[#sorted + 1] = score[i] end
  table.sort(sorted)
  local n = #sorted
  if n == 0 then return 1.645 end
  return math.max(0.5, sorted[math.min(n, math.ceil(0.9 * (n + 1)))])
end

local function range_of(data)
  local low, high = {}, {}
  for i, value in ipairs(data.x) do
    local k = (i - 1) % data.width + 1
    low[k], high[k] = math.min(low[k] or value, value), math.max(high[k] or value, value)
  end
  return low, high
end

local function wrap(data, surface, quantile, held)
  local _, noise = surface:scales()
  local low, high = range_of(data)
  local work_at, start = work_of(held.family), data.start
  local function of(d) return work_at(d) + start end
  return setmetatable({ data = data, surface = surface, of = of, low = low, high = high, noise = noise,
    quantile = quantile, held = held }, Surface)
end

--- Fits a surface. given: { family, dims, rows (flat), seconds } as for ett.regressor, and disturbed = { [row] = true
--- }: rows measured under noise, which get less weight.
---@return ett.RegressorSurface, table[] outliers { row=, seconds=, reason= }
function regressor_surface.fit(given)
  local n, width = #given.seconds, given.dims
  local of = work_of(given.family)
  local data, all, size = { x = {}, work = {}, time = {} }, {}, {}
  for i = 1, n do
    local d = table.move(given.rows, (i - 1) * width + 1, i * width, 1, {})
    local features = logarithms(d, given.family)
    data.width = #features
    table.move(features, 1, #features, #data.x + 1, data.x)
    data.work[i], data.time[i], size[i], all[i] = of(d), math.log(given.seconds[i]), d[1], i
  end
  if given.disturbed and next(given.disturbed) then
    data.doubt = {}
    for i = 1, n do data.doubt[i] = given.disturbed[i] and doubtful or 1.0 end
  end
  data.starts = needs_start(data, all)
  local residual, score = held_out(data, all)
  local dropped, kept = outliers_of(all, residual)
  if #dropped > 0 then -- fit again without the outliers
    local again, scores = held_out(data, kept)
    if next(again) then residual, score = again, scores else dropped, kept = {}, all end -- one kernel has no outlier
  end
  local errors, sum = {}, 0
  for _, i in ipairs(kept) do
    if residual[i] then
      errors[#errors + 1] = math.abs(math.exp(residual[i]) - 1)
      sum = sum + errors[#errors]
    end
  end
  local outliers = {}
  for k, i in ipairs(dropped) do
    outliers[k] = { row = i, seconds = given.seconds[i], reason = "far from the prediction of its neighbours" }
  end
  for k, i in ipairs(kept) do size[k] = size[i] end -- in place: `kept` ascends, so i >= k
  size = table.move(size, 1, #kept, 1, {})
  local facts = { kind = "surface", family = given.family, dims = width, rows = #kept, dropped = #dropped,
    size_least = math.min(table.unpack(size)), size_most = math.max(table.unpack(size)),
    error_mean = sum / #errors, error_median = median(errors) }
  local points = points_of(data, kept)
  return wrap(points, surface_through(points), conformal(score, kept), facts), outliers
end

--- Predicts from dimensions: value, its 90 % interval, provenance, distance from the samples (in factors of two).
---@param d number[]|number dimensions, or the only one
function Surface:values(d)
  if type(d) == "number" then d = { d } end
  if #d ~= self.held.dims then
    error_module.raise("argument", "expected %d dimensions, got %d", self.held.dims, #d)
  end
  local x, outside = logarithms(d, self.held.family), 0
  for k, value in ipairs(x) do
    outside = math.max(outside, (self.low[k] - value) / math.log(2), (value - self.high[k]) / math.log(2))
  end
  local mean, deviation = deviation_at(self.surface, x, self.noise)
  local spread = math.exp(self.quantile * deviation)
  local base = self.of(d)
  local value = base * math.exp(mean)
  return value, value / spread, value * spread, outside > 0.01 and "extrapolated" or "interpolated", outside, base
end

function Surface:predict(d)
  local value, low, high, provenance, outside, base = self:values(d)
  return { value = value, low = low, high = high, outside = outside, base = base, provenance = provenance }
end

--- Predictions of one flat list of dimensions, as in ett.regressor.
---@return number[] values, number[] lows, number[] highs, string[] provenances
function Surface:predict_rows(rows)
  local values, lows, highs, provenances, width = {}, {}, {}, {}, self.held.dims
  for i = 1, #rows // width do
    local one = self:predict(table.move(rows, (i - 1) * width + 1, i * width, 1, {}))
    values[i], lows[i], highs[i], provenances[i] = one.value, one.low, one.high, one.provenance
  end
  return values, lows, highs, provenances
end

function Surface:facts() return self.held end

function Surface:close() self.surface:close() end

function Surface:__tostring()
  return ("surface of %s: %d rows"):format(self.held.family or "raw", self.held.rows)
end

local format = "ett surface 4"

--- A surface as one line of text: hash, points and scales.
function Surface:text()
  local text = require("ett.json").encode { x = self.data.x, y = self.data.y, doubt = self.data.doubt,
    start = self.data.start, scales = (self.surface:scales()), quantile = self.quantile, held = self.held }
  return ("%s %s %s"):format(format, files.hash(text), text)
end

--- Reads the text of Surface:text; nil and an error if it is damaged.
---@param name string for messages
---@return ett.RegressorSurface|nil, ett.Error?
function regressor_surface.from_text(text, name)
  local hash, body = text:match("^" .. format .. " (%x+) (.*)$")
  if not hash or files.hash(body) ~= hash then
    return nil, error_module.new("format", "%s: not a surface of this version of ett, or damaged", name)
  end
  local said, why = require("ett.json").decode(body, { name = name })
  if not said then return nil, why end
  local surface
  local width = #said.x // #said.y
  surface, why = sample.surface(said.x, width, said.y, said.scales, said.doubt)
  if not surface then return nil, why end
  return wrap({ x = said.x, y = said.y, doubt = said.doubt, width = width, start = said.start }, surface,
    said.quantile, said.held)
end

--- Writes a surface file atomically.
---@return true|nil, ett.Error?
function Surface:save(path) return files.write(path, self:text()) end

--- Reads a surface file.
---@return ett.RegressorSurface|nil, ett.Error?
function regressor_surface.load(path)
  local text, err = files.read(path)
  if not text then return nil, err end
  return regressor_surface.from_text(text, path)
end

return regressor_surface

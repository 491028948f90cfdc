--- The regressor of CPU sample tables: a smooth surface through the samples (runtime/sample/surface.h).
--
-- A few dozen shapes of a kernel without waves or tiles leave trees little to split on. Median held-out error over
-- operators against the hybrid's, in two runs on a busy machine: 3.8 and 9.7 %, 6.7 and 6.6 %.
local error_module = require "ett.error"
local sample = require "ett.sample"

local regressor_surface = {}
local Surface = {}
Surface.__index = Surface

--- Rows above which trees do better and a surface is slow to fit.
regressor_surface.most_rows = 600

--- Work of a kernel by family and dimensions (ett.samples): what its time is divided by before the fit.
local work = {
  gemm = function(d) return d[1] * d[2] * d[3] * d[4] + 64.0 * d[1] * (d[2] * d[4] + d[3] * d[4] + d[2] * d[3]) end,
  attention = function(d) return 1.0 * d[1] * d[2] * d[4] * d[5] * (d[6] + 8) end,
  rowwise = function(d) return d[1] * (d[2] + 16.0) end,
  embedding = function(d) return d[1] * (d[2] + 16.0) end,
  optimizer = function(d) return d[1] + 1000.0 end,
  collective = function(d) return d[1] + 4000.0 end,
}

local function logarithms(d)
  local x = {}
  for i = 1, #d do x[i] = math.log(math.max(d[i], 1e-9)) end
  return x
end

--- Whether a table was written by the CPU back end of `ett sample`.
function regressor_surface.suits(path)
  local file = io.open(path, "r")
  if not file then return false end
  local found = false
  for line in file:lines() do
    if line:sub(1, 1) ~= "#" then break end
    found = found or line:match("^# backend: (%a+)") == "cpu" or line:match("^# backend: (%a+)") == "mpi"
  end
  file:close()
  return found
end

--- Fits. given: { family, dims, rows (flat), seconds } as ett.regressor takes them.
function regressor_surface.fit(given)
  local n, width = #given.seconds, given.dims
  local of = work[given.family] or function() return 1.0 end
  local x, y, low, high = {}, {}, {}, {}
  for i = 1, n do
    local d = table.move(given.rows, (i - 1) * width + 1, i * width, 1, {})
    for k, value in ipairs(logarithms(d)) do
      x[#x + 1] = value
      low[k], high[k] = math.min(low[k] or value, value), math.max(high[k] or value, value)
    end
    y[i] = math.log(given.seconds[i] / of(d))
  end
  local surface, err = sample.surface(x, width, y)
  if not surface then error(err, 0) end
  local size = {}
  for i = 1, n do size[i] = given.rows[(i - 1) * width + 1] end
  -- The residuals of leaving each sample out widen the surface's own deviation to what it really misses.
  local square, errors, sum = 0, {}, 0
  for i, value in ipairs(surface:leave_one_out()) do
    square = square + (value - y[i]) ^ 2 / n
    errors[i] = math.abs(math.exp(value - y[i]) - 1)
    sum = sum + errors[i] / n
  end
  table.sort(errors)
  return setmetatable({ surface = surface, of = of, low = low, high = high, noise = math.sqrt(square),
    held = { dims = width, rows = n, size_least = math.min(table.unpack(size)),
      size_most = math.max(table.unpack(size)), kind = "surface",
      dropped = 0, error_mean = sum, error_median = errors[(n + 1) // 2], family = given.family } }, Surface)
end

--- Predicts from dimensions: value, its 90 % interval, how far outside the samples (in factors of two).
function Surface:predict(d)
  if #d ~= self.held.dims then
    error_module.raise("argument", "%d dimensions wanted, got %d", self.held.dims, #d)
  end
  local x, outside = logarithms(d), 0
  for k, value in ipairs(x) do
    outside = math.max(outside, (self.low[k] - value) / math.log(2), (value - self.high[k]) / math.log(2))
  end
  local mean, deviation = self.surface:predict(x)
  local spread = math.exp(1.645 * math.sqrt(0.5 * deviation ^ 2 + self.noise ^ 2))
  local value = self.of(d) * math.exp(mean)
  return { value = value, low = value / spread, high = value * spread, outside = outside, base = self.of(d),
    provenance = outside > 0.01 and "extrapolated" or "interpolated" }
end

function Surface:facts() return self.held end

return regressor_surface

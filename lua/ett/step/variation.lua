--- Variation between devices: slow devices and jitter, and the distribution of the step time.
--
-- A device's computing takes (1 + jitter z) times the estimate, with z normal and independent in each step. Slow
-- devices, a share of all, take slow_factor times that. Ranks of a stage wait for each other in every collective, so
-- the slowest of tp * cp counts. A pipeline waits m - 1 times for its slowest stage, and once for each stage
-- (filling). The step waits for the slowest replica. The distribution is computed from distributions of maxima, for
-- any number of devices.
local ranks_module = require "ett.plan.ranks"

local variation = {}

--- The normal distribution function (Abramowitz and Stegun 1964, 7.1.26; error below 1.5e-7).
local function normal(x)
  local t = 1 / (1 + 0.3275911 * math.abs(x) / math.sqrt(2))
  local tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    * math.exp(-x * x / 2) / 2
  return x > 0 and 1 - tail or tail
end

--- P(a device takes at most x times its time), with slow devices `factor` slower.
local function device_below(x, factor, jitter)
  if jitter == 0 then return x >= factor * (1 - 1e-12) and 1.0 or 0.0 end
  return normal((x / factor - 1) / jitter)
end

--- Distribution functions of a stage of `ranks` devices: without and with slow devices; and P(at least one slow
--- device).
local function stages_of(ranks, v)
  local none = (1 - v.slow_share) ^ ranks
  local function plain(x) return device_below(x, 1, v.jitter) ^ ranks end
  local function slow(x)
    local mixed = (1 - v.slow_share) * device_below(x, 1, v.jitter) + v.slow_share * device_below(x, v.slow_factor,
      v.jitter)
    return math.max(0.0, mixed ^ ranks - none * plain(x)) / (1 - none)
  end
  return plain, slow, 1 - none
end

--- Mean and variance of a distribution function between 0 and `most`.
local function moments(below, most)
  local steps, mean, square = 2000, 0.0, 0.0
  for i = 0, steps - 1 do
    local x = most * (i + 0.5) / steps
    local above = 1 - below(x)
    mean, square = mean + above * most / steps, square + 2 * x * above * most / steps
  end
  return mean, math.max(0.0, square - mean * mean)
end

-- Gauss-Hermite quadrature: five nodes of a standard normal.
local nodes = { { -2.856970013872806, 0.011257411327720 }, { -1.355626179974266, 0.222075922005613 },
  { 0, 0.533333333333333 }, { 1.355626179974266, 0.222075922005613 }, { 2.856970013872806, 0.011257411327720 } }

-- A factor that no device exceeds.
local function most_of(v) return math.max(1, v.slow_factor) * (1 + 8 * v.jitter) + 1e-6 end

--- Logarithm of base ^ exponent; 0 ^ 0 is 1.
local function log_power(base, exponent) return exponent == 0 and 0.0 or exponent * math.log(base) end

--- The distribution function of the slowest replica, with (1 - fill) max + fill mean over the stages of each replica.
---@param shape table { stages, ranks (of a stage), replicas, fill }
---@param v table { jitter, slow_share, slow_factor }
function variation.below(shape, v)
  local plain, slow, share = stages_of(shape.ranks, v)
  local most = most_of(v)
  local plain_mean, plain_variance = moments(plain, most)
  local slow_mean, slow_variance = 0, 0
  if share > 0 then slow_mean, slow_variance = moments(slow, most) end
  local n, cases, ways = shape.stages, {}, 0.0 -- ways: logarithm of the number of choices of k stages
  for k = 0, n do -- k slow stages
    -- In logarithms: (1 - share) ^ n underflows for a large share and many stages.
    local weight = math.exp(ways + log_power(share, k) + log_power(1 - share, n - k))
    ways = ways + math.log((n - k) / (k + 1))
    if weight > 1e-15 then
      cases[#cases + 1] = { k = k, weight = weight, mean = ((n - k) * plain_mean + k * slow_mean) / n,
        spread = math.sqrt((n - k) * plain_variance + k * slow_variance) / n }
    end
  end
  return function(x)
    local sum = 0.0
    for _, case in ipairs(cases) do
      for _, node in ipairs(nodes) do
        local rest = x - shape.fill * (case.mean + node[1] * case.spread)
        local below
        if shape.fill >= 1 then
          below = rest >= 0 and 1.0 or 0.0
        else
          local y = rest / (1 - shape.fill) + 1e-12
          below = plain(y) ^ (n - case.k) * (case.k > 0 and slow(y) ^ case.k or 1)
        end
        sum = sum + case.weight * node[2] * below
      end
    end
    return math.min(1, sum) ^ shape.replicas
  end
end

--- The quantile `share` of the distribution.
function variation.quantile(below, share, most)
  local low, high = 0.0, most
  for _ = 1, 60 do
    local middle = (low + high) / 2
    if below(middle) >= share then high = middle else low = middle end
  end
  return high
end

--- The slowest replica's factor for given slowdowns of all ranks, in the order of the plan's ranks.
local function of_ranks(shape, p)
  local stride, worst = {}, 0.0
  for _, axis in ipairs { "tp", "cp", "dp", "pp" } do stride[axis] = ranks_module.stride(p, axis) end
  for replica = 0, p.dp - 1 do
    local max, sum = 0.0, 0.0
    for stage = 0, p.pp - 1 do
      local slowest, first = 0.0, 1 + replica * stride.dp + stage * stride.pp
      for i = 0, shape.ranks - 1 do
        slowest = math.max(slowest, p.rank_slowdown[first + i % p.tp * stride.tp + i // p.tp * stride.cp])
      end
      max, sum = math.max(max, slowest), sum + slowest
    end
    worst = math.max(worst, (1 - shape.fill) * max + shape.fill * sum / shape.stages)
  end
  return worst
end

--- Groups that wait for each other, and the filling share of the pipeline's time.
function variation.shape(p)
  local fill = (p.pp / p.vp) / (p.micro_batches + (p.pp - 1) / p.vp)
  return { stages = p.pp, ranks = p.tp * p.cp, replicas = p.dp, fill = p.pp == 1 and 0 or math.min(1, fill) }
end

--- Adds the distribution of the step to an estimate; does nothing if all devices are equal.
---@param computing number share of the pipeline's time in which devices compute
function variation.add(e, computing)
  local p = e.plan
  if p.jitter == 0 and p.slow_share == 0 and not p.rank_slowdown then return end
  local shape, part = variation.shape(p), e.pipeline_seconds * computing
  local function step(factor) return e.step_seconds + part * (factor - 1) end
  local found = {}
  if p.rank_slowdown then
    local seconds = step(of_ranks(shape, p))
    found = { mean = seconds, p50 = seconds, p90 = seconds, p99 = seconds }
  else
    local below, most = variation.below(shape, p), most_of(p)
    for name, share in pairs { p50 = 0.5, p90 = 0.9, p99 = 0.99 } do
      found[name] = step(variation.quantile(below, share, most))
    end
    found.mean = 0.0
    for i = 1, 50 do found.mean = found.mean + step(variation.quantile(below, (i - 0.5) / 50, most)) / 50 end
  end
  for name, seconds in pairs(found) do e["varied_" .. name .. "_seconds"] = seconds end
end

return variation

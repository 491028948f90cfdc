--- Variation between devices: slow devices and jitter, and the distribution of the step time.
--
-- A device's computing takes (1 + jitter z) times the estimate, with z normal and independent in each step. Slow
-- devices, a share of all, take slow_factor times that. Ranks of a stage wait for each other in every collective, so
-- the slowest of its tp * cp ranks sets the time. The step waits for the slowest replica.
--
-- If the factors of ranks are known, the step engine evaluates each replica whose factors differ. For random factors,
-- the engine times steps in which a single stage is slow, and one step in which all are. The law of a replica's step is
--
--   T(x) = T(1) + max over stages s of h_s(x_s) + sum over stages s of d_s (x_s - 1)
--
-- x_s is the factor of stage s. A slow stage lengthens the step if it is the bottleneck (h), and in any case while the
-- pipeline fills and drains (d). The distribution of T follows from distributions of maxima, for any number of devices.
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
local middle = { { 0, 1 } }

-- A factor that no device exceeds.
local function most_of(v) return math.max(1, v.slow_factor) * (1 + 8 * v.jitter) + 1e-6 end

--- The segment of a list of points { x, y } that holds a coordinate; the first and the last one extend without limit.
local function segment(points, coordinate, value)
  local i = 1
  while i < #points - 1 and points[i + 1][coordinate] < value do i = i + 1 end
  return points[i], points[i + 1]
end

local function at(points, x)
  local a, b = segment(points, 1, x)
  return a[2] + (x - a[1]) * (b[2] - a[2]) / (b[1] - a[1])
end

--- The factor of a stage at which it lengthens the step by y seconds.
local function inverse(points, y)
  local a, b = segment(points, 2, y)
  return a[1] + (y - a[2]) * (b[1] - a[1]) / (b[2] - a[2])
end

--- The law of a step's added seconds.
---@param factors number[] ascending, from 1: at least 3
---@param single number[][] for each stage: added seconds of steps in which it alone has each factor
---@param all number added seconds of a step in which all stages have the last factor
---@param work number[] seconds of computing of a micro-batch on each stage
---@param faster boolean whether factors are also below 1
---@return table { fill = { d_s, … }, stages = { points of h_s, or false: never the bottleneck }, slow = the same for a
---slow device on the stage, floor = number? }
function variation.law(factors, single, all, work, faster)
  local last, busiest, sum = #factors, 1, 0.0
  for s in ipairs(single) do
    if single[s][last] > single[busiest][last] then busiest = s end
    sum = sum + work[s]
  end
  local others = sum - work[busiest]
  local fill = others > 0 and math.max(0.0, all - single[busiest][last]) / (factors[last] - 1) / others or 0.0
  local law, most, best = { fill = {}, stages = {}, slow = {} }, -math.huge, 0
  local tiny, least = 1e-9 * all, 1e-3 * all / (factors[last] - 1) -- least: seconds per factor of a bottleneck
  -- If the bottleneck is slow, all of its work lengthens the step; of another stage only the work of one or a few
  -- micro-batches. The bottleneck also bounds a step whose other stages are faster. A stage with a slow device counts
  -- at all factors at which it lengthens the step.
  local half = faster and 0.5 * single[busiest][last] / (factors[last] - 1) / work[busiest] or 0.0
  local function points_of(s, steepness)
    local seconds, points = single[s], {}
    for i = 2, last do
      local y = seconds[i] - law.fill[s] * (factors[i] - 1)
      local steep = seconds[i] - seconds[i - 1] >= steepness * work[s] * (factors[i] - factors[i - 1])
      -- At factors where the stage is not the bottleneck, h is unknown. There the first segment at which it is the
      -- bottleneck is extended. Above, h does not fall.
      if #points > 0 or steep and y > least * (factors[i] - 1) then
        if i == last and #points == 0 then points[1] = { factors[i - 1], 0.0 } end
        local before = points[#points]
        points[#points + 1] = { factors[i], before and math.max(y, before[2] + tiny) or y }
      end
    end
    return #points > 0 and points
  end
  for s in ipairs(single) do
    law.fill[s] = fill * work[s]
    law.stages[s] = points_of(s, half)
    law.slow[s] = half > 0 and points_of(s, 0.0) or law.stages[s]
    local points = law.stages[s]
    if points and at(points, 1) > most then most, best = at(points, 1), s end
  end
  if most < -tiny then
    -- Below its first point, h of the slowest stage falls to the step of equal devices. If messages hide the stage
    -- there, they set the time.
    local slowest = law.stages[best]
    if slowest and slowest[1][1] == factors[2] then table.insert(slowest, 1, { 1.0, 0.0 }) else law.floor = 0.0 end
  end
  return law
end

--- Added seconds if all stages have one factor.
---@param lists table law.stages or law.slow
local function together(law, lists, x)
  local most, fill = law.floor or -math.huge, 0.0
  for s, d in ipairs(law.fill) do
    if lists[s] then most = math.max(most, at(lists[s], x)) end
    fill = fill + d * (x - 1)
  end
  return most + fill
end

--- For k from 0 to `most`: the probability that k stages are slow and that no stage lengthens the step by more than y.
local function joint(law, y, share, plain, slow, most)
  local list = { [0] = law.floor and y < law.floor and 0.0 or 1.0 }
  for k = 1, most do list[k] = 0.0 end
  for s = 1, #law.fill do
    local function most_factor(points) return points and inverse(points, y) or math.huge end
    local low = (1 - share) * plain(most_factor(law.stages[s]))
    local high = share > 0 and share * slow(most_factor(law.slow[s])) or 0.0
    for k = math.min(s, most), 1, -1 do list[k] = list[k] * low + list[k - 1] * high end
    list[0] = list[0] * low
  end
  return list
end

--- The numbers of slow stages that are likely enough, with mean and spread of the seconds of filling.
local function cases_of(law, v, share, plain, slow)
  local plain_mean, plain_variance, slow_mean, slow_variance, most = 1.0, 0.0, v.slow_factor, 0.0, most_of(v)
  if v.jitter > 0 then plain_mean, plain_variance = moments(plain, most) end
  if v.jitter > 0 and share > 0 then slow_mean, slow_variance = moments(slow, most) end
  local n, fill, squares, cases, steepest = #law.fill, 0.0, 0.0, {}, 0.0
  for s, d in ipairs(law.fill) do
    local points = law.stages[s]
    fill, squares = fill + d, squares + d * d
    steepest = math.max(steepest, points and d * (at(points, most) - at(points, 1)) / (most - 1) or 0.0)
  end
  -- The bottleneck is slower than the mean stage, and it also fills the pipeline. This adds twice the covariance of
  -- maximum and sum. For normal factors of equal stages the covariance is d_s h_s' times their variance.
  squares = squares + 2 * steepest
  local ways = 0.0 -- logarithm of the number of choices of k stages
  for k = 0, n do
    local function log_power(base, exponent) return exponent == 0 and 0.0 or exponent * math.log(base) end
    local weight = math.exp(ways + log_power(share, k) + log_power(1 - share, n - k))
    ways = ways + math.log((n - k) / (k + 1))
    if weight > 1e-12 then
      local part = k / n
      cases[#cases + 1] = { k = k, fill = fill * ((1 - part) * plain_mean + part * slow_mean - 1),
        spread = math.sqrt(squares * ((1 - part) * plain_variance + part * slow_variance)) }
    end
  end
  return cases
end

--- The distribution function of the added seconds of the slowest replica.
---@param law table of variation.law
---@param shape table { ranks (of a stage), replicas }
---@param v table { jitter, slow_share, slow_factor }
---@return function, number, number the function; its argument where it is 0, and where it is 1
function variation.below(law, shape, v)
  local plain, slow, share = stages_of(shape.ranks, v)
  local used = v.jitter > 0 and nodes or middle
  local cases = cases_of(law, v, share, plain, slow)
  local highest = math.max(together(law, law.stages, most_of(v)), together(law, law.slow, most_of(v)))
  local least, near = together(law, law.stages, math.max(0.0, 1 - 8 * v.jitter)), 1e-9 * highest
  local grid, known, slowest = (highest - least) / 2000, {}, cases[#cases].k
  -- With jitter the probabilities are smooth, so 2000 values of y are enough.
  local function at_most(y)
    if v.jitter == 0 then return joint(law, y + near, share, plain, slow, slowest) end
    local i = math.floor(y / grid + 0.5)
    known[i] = known[i] or joint(law, i * grid, share, plain, slow, slowest)
    return known[i]
  end
  return function(seconds)
    local sum = 0.0
    for _, case in ipairs(cases) do
      for _, node in ipairs(used) do
        sum = sum + node[2] * at_most(seconds - case.fill - node[1] * case.spread)[case.k]
      end
    end
    return math.min(1, sum) ^ shape.replicas
  end, least, highest
end

--- The quantile `share` of the distribution.
function variation.quantile(below, share, least, most)
  for _ = 1, 50 do
    local half = (least + most) / 2
    if below(half) >= share then most = half else least = half end
  end
  return most
end

--- The mean of the distribution: intervals are halved until the distribution function decides their part of it.
function variation.mean(below, least, most)
  local enough = 1e-4 * (most - least)
  local function above(from, to, at_from, at_to) -- seconds, weighted with the probability of longer steps
    if (at_to - at_from) * (to - from) <= enough or to - from <= enough / 10 then
      return (to - from) * (1 - (at_from + at_to) / 2)
    end
    local half = (from + to) / 2
    local at_half = below(half)
    return above(from, half, at_from, at_half) + above(half, to, at_half, at_to)
  end
  local sum, parts, at_from = least, 16, below(least)
  for i = 1, parts do
    local from, to = least + (most - least) * (i - 1) / parts, least + (most - least) * i / parts
    local at_to = below(to)
    sum, at_from = sum + above(from, to, at_from, at_to), at_to
  end
  return sum
end

--- The slowdown of each stage in each replica, from the slowdowns of all ranks in the plan's order. Replicas with equal
--- factors are listed once.
local function of_ranks(p)
  local stride, list, seen = {}, {}, {}
  for _, axis in ipairs { "tp", "cp", "dp", "pp" } do stride[axis] = ranks_module.stride(p, axis) end
  for replica = 0, p.dp - 1 do
    local factors = {}
    for stage = 0, p.pp - 1 do
      local slowest, first = 0.0, 1 + replica * stride.dp + stage * stride.pp
      for i = 0, p.tp * p.cp - 1 do
        slowest = math.max(slowest, p.rank_slowdown[first + i % p.tp * stride.tp + i // p.tp * stride.cp])
      end
      factors[stage + 1] = slowest
    end
    local key = string.pack(("n"):rep(p.pp), table.unpack(factors))
    if not seen[key] then table.move(factors, 1, p.pp, #list + 1, list) end
    seen[key] = true
  end
  return list
end

--- Factors at which the engine times single stages.
local function factors_of(v)
  local set, list = { [1] = true }, {}
  if v.slow_share > 0 then set[v.slow_factor], set[(1 + v.slow_factor) / 2] = true, true end
  if v.jitter > 0 then
    for _, z in ipairs { 0.5, 1.5, 3, 5 } do set[1 + z * v.jitter] = true end
    if v.slow_share > 0 then set[v.slow_factor * (1 + 3 * v.jitter)] = true end
  end
  for factor in pairs(set) do list[#list + 1] = factor end
  table.sort(list)
  for i = #list - 1, 2, -1 do
    if list[i] - list[i - 1] < 1e-5 * (list[#list] - 1) then table.remove(list, i) end
  end
  return list
end

--- The law of a plan, from steps of the engine. Of 32 or more stages, up to pp // 16 neighbours with equal computing
--- share the times of the first.
---@return table? nil if slow devices do not lengthen the step
local function law_of(e, slowed, v)
  local pp, factors, list, first, work, timed = e.plan.pp, factors_of(v), {}, {}, {}, 0
  if #factors < 3 then return nil end
  for s, stage in ipairs(e.stages) do
    work[s] = stage.forward_seconds + stage.backward_seconds + stage.recompute_seconds
    local same = s > 1 and s - timed < pp // 16 and math.abs(work[s] - work[s - 1]) < 1e-9 * work[s]
    timed = same and timed or s
    first[s] = same and first[s - 1] or #list // pp
    for i = 1, same and 0 or #factors do
      for other = 1, pp do list[#list + 1] = other == s and factors[i] or 1.0 end
    end
  end
  for _ = 1, pp do list[#list + 1] = factors[#factors] end
  local seconds, single = slowed(list), {}
  local all = seconds[#seconds] - e.step_seconds
  if all < 1e-9 * e.step_seconds then return nil end
  for s = 1, pp do
    single[s] = {}
    for i = 1, #factors do single[s][i] = seconds[first[s] + i] - e.step_seconds end
  end
  return variation.law(factors, single, all, work, v.jitter > 0)
end

--- Adds the distribution of the step to an estimate of devices that differ.
---@param slowed function(factors): step seconds for lists of factors of the stages' computing (ett.step)
function variation.add(e, slowed)
  local p, found = e.plan, { mean = 0.0, p50 = 0.0, p90 = 0.0, p99 = 0.0 }
  if p.rank_slowdown then
    local seconds = 0.0
    for _, each in ipairs(slowed(of_ranks(p))) do seconds = math.max(seconds, each) end
    for name in pairs(found) do found[name] = seconds - e.step_seconds end
  else
    local law = law_of(e, slowed, p)
    if law then
      local below, least, most = variation.below(law, { ranks = p.tp * p.cp, replicas = p.dp }, p)
      for name, share in pairs { p50 = 0.5, p90 = 0.9, p99 = 0.99 } do
        found[name] = variation.quantile(below, share, least, most)
      end
      -- T is convex and no mean factor is below 1.
      found.mean = math.max(0.0, variation.mean(below, least, most))
    end
  end
  for name, seconds in pairs(found) do e["varied_" .. name .. "_seconds"] = e.step_seconds + seconds end
end

return variation

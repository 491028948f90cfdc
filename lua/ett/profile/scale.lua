--- Corrects the device's kernel model with a few samples. Each sampled shape has a factor: measured over modelled
--- seconds. The answer is the model's time times the mean factor, weighted by inverse squared distance (Shepard 1968).
local median = require "ett.base.median"

local scale = {}

--- Squared distance (in log2 of the dimensions) below which a shape counts as sampled.
local same = 1e-6

--- Relative half-width with a single sample, and the least one with several samples; assumed.
scale.assumed_spread = 0.15
local least_spread = 0.03

--- Nominal rates for devices without kernel tables. They determine only how the time grows with the shape.
local flops_per_second, bytes_per_second, start_seconds = 2e13, 1e12, 3e-6

--- The time that the factors multiply: from the kernel tables, if there are any, else from a roofline.
function scale.base(tables, op, shape, dtype, pass)
  local answer = tables and tables:operator(op.name, shape, dtype, pass)
  return answer or { seconds = start_seconds + math.max(op.flops(shape, pass) / flops_per_second,
    op.bytes(shape, dtype, pass) / bytes_per_second) }
end

--- Joins the samples of one shape: the median of a field, the number of `rows`, and their `spread`: the largest ratio
--- of a sample to the median, or of the median to a sample, less one.
---@param points table[] { dims, [field] }
---@return table[] points
function scale.joined(points, field)
  local at, list = {}, {}
  for _, point in ipairs(points) do
    local shape = table.concat(point.dims, " ")
    if not at[shape] then
      at[shape] = {}
      list[#list + 1] = { dims = point.dims, values = at[shape] }
    end
    table.insert(at[shape], point[field])
  end
  for i, point in ipairs(list) do
    local values = point.values
    local middle, least, most = median(values), math.min(table.unpack(values)), math.max(table.unpack(values))
    list[i] = { dims = point.dims, [field] = middle, rows = #values,
      spread = math.max(most / middle, middle / least) - 1 }
  end
  return list
end

local function distance(a, b)
  local sum = 0.0
  for i, x in ipairs(a) do sum = sum + math.log(math.max(x, 1e-9) / math.max(b[i], 1e-9), 2) ^ 2 end
  return sum
end

--- Mean factor of the points, weighted by inverse squared distance to `dims`; the squared distance of the nearest
--- point, and that point.
---@param points table[] { dims, factor }
---@param without integer? index of the point to leave out
local function factor_at(points, dims, without)
  local sum, weight, nearest, closest = 0.0, 0.0, math.huge, nil
  for i, point in ipairs(points) do
    if i ~= without then
      local d = distance(dims, point.dims)
      local w = 1 / (d + same)
      sum, weight = sum + w * math.log(point.factor), weight + w
      if d < nearest then nearest, closest = d, point end
    end
  end
  return math.exp(sum / weight), nearest, closest
end

--- Leave-one-out relative errors of the sampled shapes; empty for a single shape.
function scale.errors(points)
  local list = {}
  if #points > 1 then
    for i, point in ipairs(points) do
      list[i] = math.abs(factor_at(points, point.dims, i) / point.factor - 1)
    end
  end
  table.sort(list)
  return list
end

--- Half-width that covers 90 % of the noise of samples whose times are smooth in the shape, such as collectives: twice
--- the median leave-one-out error, and at most the largest. 90 % of normal errors are below 2.4 times their median;
--- about a third of the variance of a leave-one-out error comes from the neighbours.
function scale.noise(points)
  local errors = scale.errors(points)
  return errors[1] and math.min(errors[#errors], 2 * median(errors)) or scale.assumed_spread
end

--- An answer (ett.profile) for a shape.
---@param points table[] of scale.joined: { dims, factor: measured over the model's seconds, rows?, spread? }
---@param dims number[] dimensions of the shape
---@param base table the model's answer for the shape; `name` of the model, default "the device's own model"
---@param once number? relative half-width of a shape that was sampled once; default: 0, for quiet devices
function scale.answer(points, dims, base, once)
  local factor, nearest, closest = factor_at(points, dims)
  local errors, exact, rows = scale.errors(points), nearest <= same, 0
  local spread = #errors > 0 and errors[#errors] or scale.assumed_spread
  if exact then spread = (closest.rows or 1) == 1 and once or closest.spread or 0.0 end
  for _, point in ipairs(points) do
    rows = rows + (point.rows or 1)
    if not exact then spread = math.max(spread, point.spread or 0.0) end
  end
  spread = math.max(least_spread, spread)
  local seconds = base.seconds * factor
  return { seconds = seconds, low_seconds = seconds / (1 + spread), high_seconds = seconds * (1 + spread),
    provenance = exact and "measured" or "calibrated",
    detail = ("%d sample%s on %s, %.2f times it"):format(rows, rows == 1 and "" or "s",
      base.name or "the device's own model", factor) }
end

return scale

--- A few samples on the device's own model: each says how far the model is off there. The answer at another shape is
--- the model's, times the mean of these factors, nearer shapes first (inverse squares of distances; Shepard 1968).
local scale = {}

--- Squared distance, in factors of 2 of the dimensions, at which a sample still counts as the same shape.
local same = 1e-6

--- Half-width of an answer of one sample, and the least of several: judgements.
local assumed_spread, least_spread = 0.15, 0.03

--- Where the device has no table: rates of no device, which set only how the time grows with the shape.
local flops_per_second, bytes_per_second, start_seconds = 2e13, 1e12, 3e-6

--- The time that the factors refer to: the tables', else a roofline.
function scale.base(tables, op, shape, dtype, pass)
  local answer = tables:operator(op.name, shape, dtype, pass)
  return answer or { seconds = start_seconds + math.max(op.flops(shape, pass) / flops_per_second,
    op.bytes(shape, dtype, pass) / bytes_per_second) }
end

local function distance(a, b)
  local sum = 0.0
  for i, x in ipairs(a) do sum = sum + math.log(math.max(x, 1e-9) / math.max(b[i], 1e-9), 2) ^ 2 end
  return sum
end

--- The mean of the logarithms of the points' factors, weighted towards `dims`; the squared distance of the nearest.
---@param points table[] { dims, factor }
---@param without integer? the point to leave out
local function factor_at(points, dims, without)
  local sum, weight, nearest = 0.0, 0.0, math.huge
  for i, point in ipairs(points) do
    if i ~= without then
      local d = distance(dims, point.dims)
      local w = 1 / (d + same)
      sum, weight, nearest = sum + w * math.log(point.factor), weight + w, math.min(nearest, d)
    end
  end
  return math.exp(sum / weight), nearest
end

--- Relative errors of the samples, each predicted by the others; of a single one none.
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

--- An answer (see ett.profile).
---@param points table[] { dims, factor: measured over the model's seconds }
---@param dims number[] of the shape
---@param base table the model's answer there
function scale.answer(points, dims, base)
  local factor, nearest = factor_at(points, dims)
  local errors, exact = scale.errors(points), nearest <= same
  local spread = exact and least_spread or math.max(least_spread, #errors > 0 and errors[#errors] or assumed_spread)
  local seconds = base.seconds * factor
  return { seconds = seconds, low_seconds = seconds / (1 + spread), high_seconds = seconds * (1 + spread),
    provenance = exact and "measured" or "calibrated",
    detail = ("%d sample%s on the device's own model, %.2f times it"):format(#points, #points == 1 and "" or "s",
      factor) }
end

return scale

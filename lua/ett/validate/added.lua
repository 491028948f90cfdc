--- The time that gradient all-reduces add to a step of `ett validate --backend torch`, from steps of sampled sizes
--- with and without them.
--
--   added = fixed + per_byte x bytes of the gradients + per_second x seconds of the step without all-reduces
--
-- The last part is waiting: the longer the ranks compute, the later the slower rank arrives. The parts are not
-- negative. They minimise the sum of the relative errors of the whole step. Relative errors of the added time are not
-- used: this time is a difference of two noisy times. Sizes whose difference is small because of noise would dominate
-- the fit.
local added = {}

--- Non-negative numbers x that minimise the sum of w (y - f x)^2, by coordinate descent.
local function solve(rows, x)
  for _ = 1, 1000 do
    local moved = 0.0
    for i = 1, #x do
      local above, below = 0.0, 0.0
      for _, row in ipairs(rows) do
        local rest = row.y
        for k = 1, #x do rest = rest - (k ~= i and row[k] * x[k] or 0.0) end
        above, below = above + row.w * row[i] * rest, below + row.w * row[i] * row[i]
      end
      local value = math.max(0.0, above / below)
      moved = math.max(moved, math.abs(value - x[i]))
      x[i] = value
    end
    if moved < 1e-7 then break end
  end
end

--- Errors below this share of a step are noise; they count by their square.
local noise = 0.01

--- Fits the three parts.
---@param sizes table[] { step = seconds, alone = seconds without all-reduces, bytes = of the gradients }
---@return table { fixed = seconds, per_byte = seconds, per_second = seconds a second }
function added.fit(sizes)
  local most = { 0.0, 0.0, 0.0 } -- columns of one scale
  local rows, x = {}, { 0.0, 0.0, 0.0 }
  for i, size in ipairs(sizes) do
    rows[i] = { 1 / size.step, size.bytes / size.step, size.alone / size.step, y = 1 - size.alone / size.step, w = 1.0 }
    for k = 1, 3 do most[k] = math.max(most[k], rows[i][k]) end
  end
  for _, row in ipairs(rows) do
    for k = 1, 3 do row[k] = row[k] / most[k] end
  end
  for _ = 1, 12 do -- least absolute errors, by weights
    solve(rows, x)
    for _, row in ipairs(rows) do
      local off = row.y - row[1] * x[1] - row[2] * x[2] - row[3] * x[3]
      row.w = 1 / math.max(noise, math.abs(off))
    end
  end
  return { fixed = x[1] / most[1], per_byte = x[2] / most[2], per_second = x[3] / most[3] }
end

--- Seconds that the all-reduces of `bytes` add to a step of `alone` seconds.
function added.seconds(law, bytes, alone) return law.fixed + law.per_byte * bytes + law.per_second * alone end

return added

--- Whether a count of parameters is the published one: within 0.01 %, or half of its last stated digit.
local published_count = {}

--- Half of the last digit of a rounded count: 0.5e9 of 671e9.
local function half_digit(count) return 0.5 * 10 ^ #("%.0f"):format(count):match "0*$" end

function published_count.agrees(count, published)
  return math.abs(count - published) <= math.max(1e-4 * published, half_digit(published))
end

return published_count

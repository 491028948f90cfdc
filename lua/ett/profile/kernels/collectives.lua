--- Collectives inside a node: measured bus bandwidth by kind, number of GPUs and size.
--
-- Between two sizes the time is linear in bytes: a start and a rate. Below the smallest size the time is constant.
-- Above the largest size the line through the two largest sizes continues. No time falls with bytes (`rising`). Bytes
-- count the whole buffer, as in nccl-tests.
--
-- Between two measured numbers of GPUs, the time of the smallest size is linear in the number. The logarithm of the
-- rest is linear in the logarithm of the number, and its bus bandwidth is at most that of both numbers. Times of four
-- GPUs were computed from those of two and eight. On H200, B200, B300 and RTX PRO 6000 the mean error is 6.5 %. From
-- the curve of eight alone it is 23 %.
local table_at = require "ett.base.table_at"

local collectives = { name = "collectives", summary = "collectives inside a node, by kind, GPUs and size",
  table = "collectives.csv", inputs = { "gpus", "bytes" }, texts = { "operation" } }

-- Assumed: above the largest size of a curve, the bandwidth is at most twice the bandwidth at this size.
local least_slope = 0.5

--- Bytes that each rank sends, divided by the bytes of the buffer.
local function share(kind, gpus) return (kind == "all_reduce" and 2 or 1) * (gpus - 1) / gpus end

--- Curves of measured rows: kind -> GPUs -> { bytes, seconds, bytes, seconds, … }.
---@param rows table[] of kernels.read
function collectives.fit(rows)
  local curves = {}
  for _, row in ipairs(rows) do
    local by_bytes = table_at(table_at(curves, row.operation), math.tointeger(row.gpus))
    table.insert(table_at(by_bytes, row.bytes), row.seconds)
  end
  for _, by_gpus in pairs(curves) do
    for n, by_bytes in pairs(by_gpus) do
      local sizes, flat = {}, {}
      for bytes in pairs(by_bytes) do sizes[#sizes + 1] = bytes end
      table.sort(sizes)
      for _, bytes in ipairs(sizes) do
        local times = by_bytes[bytes]
        table.sort(times)
        flat[#flat + 1], flat[#flat + 2] = bytes, times[(#times + 1) // 2]
      end
      by_gpus[n] = flat
    end
  end
  return curves
end

local function is_rising(curve)
  for i = 4, #curve, 2 do if curve[i] < curve[i - 2] then return false end end
  return true
end

--- The curve, smoothed so that no larger message takes less time: neighbouring sizes whose times fall have their
--- geometric mean. It is the nearest rising curve in squares of logarithms (pools of adjacent violators).
---@param curve number[] { bytes, seconds, … }; returned itself if it rises
function collectives.rising(curve)
  if is_rising(curve) then return curve end
  local sizes, seconds, last, rising = {}, {}, 0, {} -- of each pool: its number of sizes, its time
  for i = 2, #curve, 2 do
    last = last + 1
    sizes[last], seconds[last] = 1, curve[i]
    while last > 1 and seconds[last - 1] > seconds[last] do
      local below, above = sizes[last - 1], sizes[last]
      local log = (math.log(seconds[last - 1]) * below + math.log(seconds[last]) * above) / (below + above)
      last = last - 1
      sizes[last], seconds[last] = below + above, math.exp(log)
    end
  end
  for pool = 1, last do
    for _ = 1, sizes[pool] do
      local n = #rising
      rising[n + 1], rising[n + 2] = curve[n + 1], seconds[pool]
    end
  end
  return rising
end

-- The curve of the next larger number of GPUs, else of the largest, and that number.
local function nearest(by_gpus, gpus)
  local best
  for n in pairs(by_gpus) do
    local fits = n >= gpus
    if not best or fits and (best < gpus or n < best) or not fits and best < gpus and n > best then best = n end
  end
  return by_gpus[best], best
end

-- Seconds per byte above the largest size. at_rate: seconds per byte at the rate of the links, or nil.
local function last_slope(curve, at_rate)
  local last = #curve - 1
  local mean = curve[last + 1] / curve[last]
  local slope = last < 3 and mean or (curve[last + 1] - curve[last - 1]) / (curve[last] - curve[last - 2])
  return math.max(least_slope * mean, math.min(slope, mean, at_rate or mean))
end

-- Bus bandwidth of very large messages, if the links state it, else 0. For all_reduce, it is the bandwidth of the
-- largest measured number of GPUs up to `most`.
local function large_rate(large, kind, most)
  local found = 0
  for n in pairs(kind == "all_reduce" and large.all_reduce or {}) do
    if n <= most and n > found then found = n end
  end
  return kind ~= "all_to_all" and math.max(large.rings or 0.0, found > 0 and large.all_reduce[found] or 0.0) or 0.0
end

-- Seconds of a collective by the curve of n GPUs.
local function at_curve(curve, kind, n, bytes, gpus, large)
  local last = #curve - 1
  if bytes <= curve[1] then
    return curve[2]
  elseif bytes >= curve[last] then
    local rate = large and large_rate(large, kind, math.max(n, gpus)) or 0.0
    return curve[last + 1] + last_slope(curve, rate > 0 and share(kind, n) / rate) * (bytes - curve[last])
  end
  local i = 3
  while curve[i] < bytes do i = i + 2 end
  local t = (bytes - curve[i - 2]) / (curve[i] - curve[i - 2])
  return curve[i - 1] * (1 - t) + curve[i + 1] * t
end

-- The curve of the next smaller number of GPUs, and that number; nil if there is none.
local function fewer(by_gpus, gpus)
  local best
  for n in pairs(by_gpus) do if n < gpus and (not best or n > best) then best = n end end
  return best and by_gpus[best], best
end

-- The curves that give the times of a kind on a number of GPUs. One is the curve of the nearest measured number, `n`.
-- Between two measured numbers, the curve of the next smaller one, `least`, counts too.
local function curves_for(by_gpus, kind, gpus)
  local own, least, lower = { kind = kind, gpus = gpus, share = share(kind, gpus) }, nil, nil
  own.curve, own.n = nearest(by_gpus, gpus)
  if own.n > gpus then lower, least = fewer(by_gpus, gpus) end
  own.below, own.least, own.curve_share = lower, least, share(kind, own.n)
  return own
end

-- Seconds of a collective on the number of GPUs of curves_for.
---@param seconds number by the curve of the nearest number
local function seconds_for(own, bytes, seconds, large)
  local below, gpus, n, least = own.below, own.gpus, own.n, own.least
  if not below then return seconds * own.share / own.curve_share end
  local fewest = at_curve(below, own.kind, least, bytes, least, large)
  local lower, upper = math.max(0.0, fewest - below[2]), math.max(0.0, seconds - own.curve[2])
  local found = below[2] + (own.curve[2] - below[2]) * (gpus - least) / (n - least)
  if lower > 0 and upper > 0 then
    local between = lower * (upper / lower) ^ (math.log(gpus / least) / math.log(n / least))
    found = found + math.max(between,
      own.share * math.min(lower / share(own.kind, least), upper / own.curve_share))
  end
  return math.max(math.min(fewest, seconds), math.min(found, math.max(fewest, seconds)))
end

--- Seconds of a collective, or nil without a curve of its kind. For numbers of GPUs above or below all measured ones,
--- the time of the nearest number is multiplied by the ratio of the bytes that a GPU sends.
---@param curves table of collectives.fit
---@param kind string
---@param bytes number of the whole buffer
---@param gpus integer
---@param large table? bus bandwidths of very large messages, at which curves that end below continue: `rings`, of any
---  ring, and `all_reduce`, by number of GPUs
function collectives.seconds(curves, kind, bytes, gpus, large)
  if not curves[kind] or gpus < 2 then return nil end
  local own = curves_for(curves[kind], kind, gpus)
  return seconds_for(own, bytes, at_curve(own.curve, kind, own.n, bytes, gpus, large), large)
end

--- Seconds of the smallest collective on that number of GPUs, and the number that was measured; nil without a curve of
--- the kind.
function collectives.start(curves, kind, gpus)
  if not curves[kind] then return nil end
  local curve, n = nearest(curves[kind], gpus)
  return curve[2], n
end

--- Bus bandwidths of a number of GPUs, also above the largest measured size: { bytes, bytes/s, … }; nil without a curve
--- of the kind.
---@param large table? as in collectives.seconds
function collectives.bandwidths(curves, kind, gpus, large)
  if not curves[kind] then return nil end
  local own = curves_for(curves[kind], kind, gpus)
  local curve, list = own.curve, {}
  for i = 1, #curve, 2 do
    local bytes = curve[i]
    list[i], list[i + 1] = bytes, bytes * own.share / seconds_for(own, bytes, curve[i + 1], large)
  end
  local bytes, n = curve[#curve - 1], #list
  for i = n + 1, n + 16, 2 do
    bytes = 4 * bytes
    list[i], list[i + 1] = bytes, bytes * own.share
      / seconds_for(own, bytes, at_curve(curve, kind, own.n, bytes, gpus, large), large)
  end
  return list
end

return collectives

--- The surfaces of active sampling: a rough surface (ett.sample) through the logarithms of each kernel's times,
--- relative to its roofline time. They are refitted after every round; predictions use ett.profile.
local error_module = require "ett.base.error"
local sample = require "ett.sample"
local schema = require "ett.base.schema"

local surfaces = {}
local Surfaces = {}
Surfaces.__index = Surfaces

--- The pool of an operator's pass. All products share one pool, whichever layer they belong to.
function surfaces.key(op, pass) return (op.family == "gemm" and "gemm" or op.name) .. " " .. pass end

--- Logarithms of the kernel's dimensions; a dimension of 0 counts as a half.
function surfaces.features(op, s)
  local kernel, list = op.kernel_shape(s), {}
  for _, name in ipairs(schema.keys(kernel)) do
    if math.type(kernel[name]) == "integer" then list[#list + 1] = math.log(math.max(0.5, kernel[name])) end
  end
  return list
end

-- Assumed rates of the roofline. Only its form matters: the surface learns the level.
local flop_rate, byte_rate, start_seconds = 1e11, 1.5e10, 2e-7

--- The time by which values are divided.
function surfaces.roofline(op, s, dtype, pass)
  return op.flops(s, pass) / flop_rate + op.bytes(s, dtype, pass) / byte_rate + start_seconds
end

--- Surfaces without samples.
function surfaces.new(dtype) return setmetatable({ dtype = dtype or "fp32", pools = {} }, Surfaces) end

--- Adds one sample of an operator.
function Surfaces:add(op, s, pass, seconds)
  local key, x = surfaces.key(op, pass), surfaces.features(op, s)
  local pool = self.pools[key]
  if not pool then
    pool = { x = {}, y = {}, width = #x, count = 0 }
    self.pools[key] = pool
  end
  table.move(x, 1, #x, #pool.x + 1, pool.x)
  pool.count = pool.count + 1
  pool.y[pool.count] = math.log(seconds / surfaces.roofline(op, s, self.dtype, pass))
  pool.surface = nil
end

-- Above the first number of points, the scales of an earlier surface are kept until the points have grown by half.
-- Above the second, they are kept for good.
local searched_points, most_searched = 200, 400

--- The surface of a pool ("gemm forward"), fitted at its first use; nil without samples.
function Surfaces:surface(key)
  local pool = self.pools[key]
  if not pool or pool.surface then return pool and pool.surface end
  local surface, err
  if pool.scales and pool.count > searched_points
    and (pool.count < 1.5 * pool.searched or pool.searched >= most_searched) then
    surface = sample.surface(pool.x, pool.width, pool.y, pool.scales, nil, true)
  end
  if not surface then
    surface, err = sample.surface(pool.x, pool.width, pool.y, nil, nil, true)
    if not surface then error(error_module.label(err, key), 0) end
    pool.searched = pool.count
  end
  pool.surface, pool.scales = surface, surface:scales()
  return surface
end

--- Leave-one-out errors of a pool: each sample is predicted without it, but with scales fitted to all samples. On the
--- tables of a half-minute campaign these errors are a twentieth too low (9.9 % for 10.4 %).
---@return number[] absolute relative errors
function Surfaces:held_out(key)
  local pool, errors = self.pools[key], {}
  for i, value in ipairs(self:surface(key):leave_one_out()) do errors[i] = math.abs(math.exp(value - pool.y[i]) - 1) end
  return errors
end

return surfaces

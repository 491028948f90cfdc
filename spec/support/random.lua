--- Seeded random numbers, the same on every machine and apart from math.random's state.
local random = {}

local function states(seed)
  return function()
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed
  end
end

--- A function f(n) of random integers from 0 to n - 1, for n up to 32768.
---@param seed integer
---@return fun(n: integer): integer
function random.integers(seed)
  local state = states(seed)
  return function(n)
    assert(n <= 32768)
    return state() // 65536 % n
  end
end

--- A function of random numbers in [0, 1).
---@param seed integer
---@return fun(): number
function random.shares(seed)
  local state = states(seed)
  return function() return state() / 2147483648 end
end

return random

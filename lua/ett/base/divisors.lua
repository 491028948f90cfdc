--- The divisors of n up to `most`, ascending, from its prime factors. A prime of 1e15 takes 0.2 s.
---@param n number
---@param most number? default: n
---@return integer[] empty if n is no positive integer
return function(n, most)
  local list, rest, prime = { 1 }, math.tointeger(n), 2
  if not rest or rest < 1 then return {} end
  most = most or n
  local function take(factor)
    local old, power = #list, 1
    while rest % factor == 0 do
      rest, power = rest // factor, power * factor
      for i = 1, old do list[#list + 1] = list[i] * power end
    end
  end
  while prime <= most and prime * prime <= rest do
    take(prime)
    prime = prime + (prime == 2 and 1 or 2)
  end
  if rest > 1 then take(rest) end
  table.sort(list)
  while list[#list] and list[#list] > most do list[#list] = nil end
  return list
end

--- Integer arithmetic of a shell's $((…)): + - * / %, comparisons, ! && ||, and CONDITION ? A : B.
--
--   arithmetic "(8 > 1) ? 8 / 2 : 1" --> 4

-- Binary operators, by rank: those of a higher rank bind tighter.
local ranks = { ["||"] = 1, ["&&"] = 2, ["=="] = 3, ["!="] = 3, ["<"] = 4, ["<="] = 4, [">"] = 4, [">="] = 4,
  ["+"] = 5, ["-"] = 5, ["*"] = 6, ["/"] = 6, ["%"] = 6 }

local function flag(held) return held and 1 or 0 end

-- A division by zero is nil; its result has the sign of a shell's, which rounds towards zero.
local function divided(a, b) return b ~= 0 and (a // b + flag(a % b ~= 0 and (a < 0) ~= (b < 0))) or nil end

local binary = {
  ["||"] = function(a, b) return flag(a ~= 0 or b ~= 0) end, ["&&"] = function(a, b) return flag(a ~= 0 and b ~= 0) end,
  ["=="] = function(a, b) return flag(a == b) end, ["!="] = function(a, b) return flag(a ~= b) end,
  ["<"] = function(a, b) return flag(a < b) end, ["<="] = function(a, b) return flag(a <= b) end,
  [">"] = function(a, b) return flag(a > b) end, [">="] = function(a, b) return flag(a >= b) end,
  ["+"] = function(a, b) return a + b end, ["-"] = function(a, b) return a - b end,
  ["*"] = function(a, b) return a * b end, ["/"] = divided,
  ["%"] = function(a, b) return b ~= 0 and a - b * divided(a, b) or nil end,
}

-- Rules of the grammar: each returns a value, or nil if there is none, and the position behind it.
local expression

local function operand(text, at, depth)
  local sign, behind = text:match("^%s*([!+%-(])()", at)
  if not sign or depth > 100 then
    local digits, last = text:match("^%s*(%d+)()", at)
    return digits and math.tointeger(tonumber(digits)), last or at
  end
  local value
  if sign == "(" then
    value, behind = expression(text, behind, depth + 1)
    local close = text:match("^%s*%)()", behind)
    return close and value, close or behind
  end
  value, behind = operand(text, behind, depth + 1)
  if sign == "!" and value then value = flag(value == 0) end
  return value and (sign == "-" and -value or value), behind
end

local function chain(text, at, least, depth)
  local value
  value, at = operand(text, at, depth)
  while value do
    local sign, behind = text:match("^%s*([<>=!]=)()", at)
    if not sign then sign, behind = text:match("^%s*([&|][&|])()", at) end
    if not sign then sign, behind = text:match("^%s*([%+%-*/%%<>])()", at) end
    local rank = ranks[sign]
    if not rank or rank < least then break end
    local right
    right, at = chain(text, behind, rank + 1, depth)
    value = right and binary[sign](value, right)
  end
  return value, at
end

function expression(text, at, depth)
  local value
  value, at = chain(text, at, 1, depth)
  local behind = text:match("^%s*%?()", at)
  if not (value and behind) or depth > 100 then return value, at end
  local yes, no
  yes, at = expression(text, behind, depth + 1)
  at = text:match("^%s*:()", at)
  if not (yes and at) then return nil, behind end
  no, at = expression(text, at, depth + 1)
  if value ~= 0 then return no and yes, at end
  return no, at
end

---@return integer|nil value nil for other texts, such as those with names
return function(text)
  local value, at = expression(text, 1, 0)
  return value and not text:find("%S", at) and value or nil
end

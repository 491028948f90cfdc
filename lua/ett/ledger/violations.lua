--- Violated rules of a ledger as messages: names, values, the limit, nearest valid values.
local ledger = require "ett.ledger"

local violations = {}

--- A number as text; integers without a decimal point.
local function show(value)
  if value ~= value then return "undefined (a division by zero)" end
  if value % 1 == 0 and math.abs(value) < 1e15 then return ("%d"):format(value) end
  return ("%.6g"):format(value)
end
violations.show = show

--- Nearest divisors of `size` below and above `degree`, ascending; tries at most a million.
function violations.nearest_divisors(size, degree)
  local found = {}
  if size % 1 ~= 0 or size < 1 or degree ~= degree then return found end
  local start = math.floor(math.min(math.max(degree, 1), size))
  for k = start, math.max(1, start - 1000000), -1 do
    if size % k == 0 then
      found[1] = k
      break
    end
  end
  for k = start + 1, math.min(size, start + 1000000) do
    if size % k == 0 then
      found[#found + 1] = k
      break
    end
  end
  return found
end

local sentence = {}

function sentence.divides(c)
  local nearest = violations.nearest_divisors(c.left, c.right)
  for i, value in ipairs(nearest) do nearest[i] = show(value) end
  local tail = #nearest > 0 and (c.right % 1 == 0) and ("; nearest passing: %s"):format(table.concat(nearest, " or "))
    or ""
  return ("%s = %s must be divisible by %s = %s%s"):format(c.subject, show(c.left), c.object, show(c.right), tail)
end

function sentence.at_most(c)
  if tonumber(c.object) then return ("%s must be at most %s, got %s"):format(c.subject, c.object, show(c.left)) end
  local tail = c.right >= 1 and not c.subject:match("^%a+ micro") and not c.subject:match("tokens per")
    and ("; greatest passing: %s"):format(show(math.floor(c.right))) or ""
  return ("%s = %s must be at most %s = %s%s"):format(c.subject, show(c.left), c.object, show(c.right), tail)
end

function sentence.at_least(c)
  if tonumber(c.object) then return ("%s must be at least %s, got %s"):format(c.subject, c.object, show(c.left)) end
  return ("%s = %s must be at least %s = %s"):format(c.subject, show(c.left), c.object, show(c.right))
end

function sentence.equal(c)
  return ("%s = %s must equal %s = %s"):format(c.subject, show(c.left), c.object, show(c.right))
end

function sentence.disjoint(c)
  return ("%s and %s of one tensor are on the same axis"):format(c.subject, c.object)
end

--- Every violated rule of ledger L at the parameters' current values, once each, in order: { text=, stage=, relation=,
--- subject=, object=, left=, right= }. already: another rule is violated. Then sizes that are not integers or not
--- finite are not reported, because they are consequences.
function violations.list(L, already)
  local found, seen = {}, {}
  for _, c in ipairs(L:checks()) do
    if ledger.value(c.ok) ~= 1 then
      c.left, c.right, c.ok = ledger.value(c.left), ledger.value(c.right), nil
      c.text = sentence[c.relation](c)
      -- A fractional size is a consequence of an earlier violation.
      local follows = (#found > 0 or already) and (c.relation == "divides" and c.left % 1 ~= 0
        or math.abs(c.left) == math.huge)
      if not seen[c.text] and not follows then
        seen[c.text] = true
        found[#found + 1] = c
      end
    end
  end
  return found
end

function violations.message(list)
  local lines = {}
  for i, violation in ipairs(list) do lines[i] = violation.text or violation end
  if #lines == 1 then return lines[1] end
  return ("%d limits are violated:\n  %s"):format(#lines, table.concat(lines, "\n  "))
end

return violations

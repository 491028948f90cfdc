--- near(expected, actual, message): asserts that two numbers differ by at most a billionth of the expected one. Two
--- integers and other values must be equal. Each field of an expected table is compared; the actual one may have more.
local function near(expected, actual, message)
  if type(expected) == "table" then
    for key, value in pairs(expected) do near(value, actual[key], message and message .. "." .. key or key) end
  else
    local kind = math.type(expected) and math.type(actual)
    local inexact = kind and (kind == "float" or math.type(expected) == "float")
    assert(expected == actual or inexact and math.abs(expected - actual) <= 1e-9 * math.abs(expected),
      (kind and "%s: wanted %.17g, got %.17g" or "%s: wanted %s, got %s"):format(message or "value", expected, actual))
  end
end

return near

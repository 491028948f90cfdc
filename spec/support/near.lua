--- near(expected, actual, message): asserts that two numbers differ by at most a billionth of the expected one. Other
--- values must be equal. Each field of an expected table is compared; the actual table may have more fields.
local function near(expected, actual, message)
  if type(expected) == "table" then
    for key, value in pairs(expected) do near(value, actual[key], message and message .. "." .. key or key) end
  else
    assert(expected == actual or math.type(expected) and math.type(actual)
        and math.abs(expected - actual) <= 1e-9 * math.abs(expected),
      ("%s: wanted %s, got %s"):format(message or "value", expected, actual))
  end
end

return near

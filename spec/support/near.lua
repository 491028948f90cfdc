--- near(expected, actual, message): asserts that two numbers differ by at most a billionth of the expected one.
return function(expected, actual, message)
  assert(math.abs(expected - actual) <= 1e-9 * math.abs(expected),
    ("%s: wanted %.17g, got %.17g"):format(message or "value", expected, actual))
end

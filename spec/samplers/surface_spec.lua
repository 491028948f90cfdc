local sample = require "ett.sample"

--- A fixed irregular sequence in [0, 1).
local function spread(i, d) return sample.halton(i, d, 3) end

describe("a surface through measurements", function()
  local function truth(a, b) return math.sin(2 * a) + 0.5 * b * b end
  local points, values, n = {}, {}, 60
  for i = 1, n do
    local a, b = 3 * spread(i, 1), 2 * spread(i, 2)
    points[#points + 1], points[#points + 2], values[i] = a, b, truth(a, b)
  end
  local surface = assert(sample.surface(points, 2, values))

  it("predicts between its points and is less sure far from them", function()
    local worst = 0
    for i = 100, 160 do
      local a, b = 0.2 + 2.6 * spread(i, 1), 0.2 + 1.6 * spread(i, 2)
      worst = math.max(worst, math.abs(surface:predict { a, b } - truth(a, b)))
    end
    assert.is_true(worst < 0.1, tostring(worst))
    local _, near = surface:predict { points[1], points[2] }
    local _, far = surface:predict { 12, 9 }
    assert.is_true(far > 10 * near)
  end)

  it("gains most from where it knows least", function()
    -- A cluster of candidates far from every point: each of them teaches about all of them.
    local gain = surface:gain { points[1], points[2], points[3], points[4], 9, 9, 9.1, 9, 9, 9.1 }
    assert.equal(5, #gain)
    for i = 3, 5 do assert.is_true(gain[i] > 10 * gain[1] and gain[i] > 10 * gain[2]) end
  end)

  it("leaves one out as a fit without it would", function()
    local held = surface:leave_one_out()
    assert.equal(n, #held)
    -- The closed form against the definition, at fixed lengths: a surface of all points but one is
    -- searched anew, so lengths move a little.
    local rest_points, rest_values = {}, {}
    for i = 1, n do
      if i ~= 20 then
        rest_points[#rest_points + 1], rest_points[#rest_points + 2] = points[2 * i - 1], points[2 * i]
        rest_values[#rest_values + 1] = values[i]
      end
    end
    local without = assert(sample.surface(rest_points, 2, rest_values))
    local direct = without:predict { points[39], points[40] }
    assert.is_true(math.abs(direct - held[20]) < 0.02, ("%g %g"):format(direct, held[20]))
  end)

  it("heeds a doubtful point less", function()
    local off = table.move(values, 1, n, 1, {})
    off[20] = off[20] + 0.3
    local doubt = {}
    for i = 1, n do doubt[i] = i == 20 and 1e4 or 1.0 end
    local place = { points[39], points[40] }
    local misled = assert(sample.surface(points, 2, off))
    local heedless = assert(sample.surface(points, 2, off, nil, doubt))
    local wrong, right = misled:predict(place) - values[20], heedless:predict(place) - values[20]
    assert.is_true(math.abs(right) < 0.5 * math.abs(wrong),
      ("off by %g with doubt, %g without"):format(right, wrong))
    local again = assert(sample.surface(points, 2, off, (heedless:scales()), doubt))
    assert.equal(heedless:predict(place), (again:predict(place)))
  end)

  it("gives the same digits again", function()
    local again = assert(sample.surface(points, 2, values))
    assert.equal(surface:predict { 1, 1 }, (again:predict { 1, 1 }))
  end)

  it("refuses what cannot be a surface", function()
    local none, err = sample.surface({ 1 }, 1, { 1 })
    assert.is_nil(none)
    assert.matches("2 to 5000 points", err.message)
    assert.error_matches(function() sample.surface({ 1, 2, 3 }, 2, { 1, 2 }) end, "width features a value")
    assert.error_matches(function() sample.surface({ 1, 2 }, 1, { 1, 2 }, nil, { 1 }) end, "a factor for every point")
    none, err = sample.surface({ 1, 2 }, 1, { 1, 2 }, nil, { 1, 0 })
    assert.is_nil(none)
    assert.matches("point 2 of a surface: its doubt must be positive, got 0", err.message)
  end)
end)
